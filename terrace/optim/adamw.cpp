// The loop over parameters; the arithmetic is in the kernels.
#include "terrace/optim/adamw.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include "terrace/base/error.h"
#include "terrace/optim/kernels.h"

namespace terrace::optim {

AdamW::AdamW(const std::vector<nn::Parameter*>& parameters, const config::OptimizerConfig& config) : config_(config) {
  const at::NoGradGuard no_grad;
  for (nn::Parameter* parameter : parameters) {
    TERRACE_CHECK(parameter->value.is_contiguous(), "{} is not contiguous", parameter->name);
    const at::Tensor value = parameter->value.detach();
    at::Tensor master = value.scalar_type() == at::kFloat ? parameter->value : value.to(at::kFloat);
    const at::Tensor zeros = at::zeros_like(value, value.options().dtype(at::kFloat));
    slots_.push_back({parameter, master, zeros, zeros.clone()});
  }
}

void AdamW::step(double learning_rate, double gradient_multiplier) {
  const at::NoGradGuard no_grad;
  ++count;
  AdamWStep numbers{.learning_rate = learning_rate,
                    .weight_decay = 0,
                    .beta1 = config_.beta1,
                    .beta2 = config_.beta2,
                    .epsilon = config_.epsilon,
                    .gradient_multiplier = gradient_multiplier,
                    .count = count};
  for (Slot& slot : slots_) {
    numbers.weight_decay = slot.parameter->decay ? config_.weight_decay : 0.0;
    adamw_step(numbers, slot.parameter->gradient, slot.master, slot.m, slot.v, slot.parameter->value);
  }
}

void AdamW::publish_masters() {
  const at::NoGradGuard no_grad;
  for (Slot& slot : slots_) {
    if (!slot.master.is_same(slot.parameter->value)) slot.parameter->value.copy_(slot.master);
  }
}

}  // namespace terrace::optim
