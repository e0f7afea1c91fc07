// Values of a model's parameters that leave no term of it zero.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <cstdint>

#include "terrace/models/model.h"

namespace terrace::models {

// Gives every parameter and buffer its initial value for the seed, and hands it to `change` with noise of its sizes
// from a normal distribution of the deviation. Then allocates gradients.
template <typename Change>
void draw_values(Model& model, at::ScalarType type, uint64_t seed, double deviation, const Change& change) {
  at::set_num_threads(1);
  nn::initialize(model.parameters(), seed);
  nn::initialize(model.buffers(), seed);
  const at::NoGradGuard no_grad;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(30 + seed);
  for (nn::Parameter* parameter : model.parameters()) {
    at::Tensor noise = at::empty(parameter->value.sizes());
    change(*parameter, noise.normal_(0, deviation, generator));
  }
  nn::allocate_gradients(model.parameters(), type == at::kDouble ? at::kDouble : at::kFloat);
}

}  // namespace terrace::models
