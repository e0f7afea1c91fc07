// Computes the coefficients of a step, sums squares up, and chooses the implementation by device.
#include "terrace/optim/kernels.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "terrace/base/error.h"
#include "terrace/profile/record.h"

namespace terrace::optim {

AdamWCoefficients::AdamWCoefficients(const AdamWStep& step)
    : multiplier(static_cast<float>(step.gradient_multiplier)),
      keep(static_cast<float>(1.0 - step.learning_rate * step.weight_decay)),
      one_minus_beta1(static_cast<float>(1.0 - step.beta1)),
      beta2(static_cast<float>(step.beta2)),
      one_minus_beta2(static_cast<float>(1.0 - step.beta2)),
      inverse_root_correction2(static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(step.beta2, step.count)))),
      epsilon(static_cast<float>(step.epsilon)),
      rate(static_cast<float>(step.learning_rate / (1.0 - std::pow(step.beta1, step.count)))) {}

void adamw_step(const AdamWStep& step, const at::Tensor& gradient, at::Tensor& master, at::Tensor& m, at::Tensor& v,
                at::Tensor& value) {
  const profile::OperationRecord record("terrace::adamw", [&] {
    const double written = profile::bytes_of({master, m, v});
    const double rounded = value.is_same(master) ? 0 : profile::bytes_of({value});
    return profile::OperationCost{.bytes = 2 * written + rounded + profile::bytes_of({gradient})};
  });
  (master.is_cuda() ? adamw_step_cuda : adamw_step_cpu)(step, gradient, master, m, v, value);
}

void Squares::add(const at::Tensor& gradient, int64_t first) {
  const profile::OperationRecord record("terrace::squares",
                                        [&] { return profile::OperationCost{.bytes = profile::bytes_of({gradient})}; });
  if (gradient.numel() == 0) return;
  TERRACE_CHECK(first > 0 && first <= norm_piece, "a first piece of {} elements", first);
  if (!rows_.defined()) rows_ = at::zeros({square_rows, exact_words}, gradient.options().dtype(at::kLong));
  (gradient.is_cuda() ? add_squares_cuda : add_squares_cpu)(gradient, first, rows_);
}

ExactSum Squares::total() const {
  ExactSum total = {};
  if (!rows_.defined()) return total;
  at::Tensor words = at::sum(rows_, {0});  // [exact_words]
  if (words.is_cuda()) {
    words = at::empty(words.sizes(), words.options().device(at::kCPU).pinned_memory(true)).copy_(words);
  }
  std::copy_n(words.const_data_ptr<int64_t>(), total.size(), total.begin());
  carry(total);
  return total;
}

}  // namespace terrace::optim
