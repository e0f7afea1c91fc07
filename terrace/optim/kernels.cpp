// Computes the coefficients of a step, and chooses the implementation by device.
#include "terrace/optim/kernels.h"

#include <cmath>

#include "terrace/ops/record.h"

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
  const ops::OperationRecord record("terrace::adamw", [&] {
    const double written = ops::bytes_of({master, m, v});
    const double rounded = value.is_same(master) ? 0 : ops::bytes_of({value});
    return ops::OperationCost{.bytes = 2 * written + rounded + ops::bytes_of({gradient})};
  });
  (master.is_cuda() ? adamw_step_cuda : adamw_step_cpu)(step, gradient, master, m, v, value);
}

at::Tensor squares_by_piece(const at::Tensor& gradient) {
  const ops::OperationRecord record("terrace::squares",
                                    [&] { return ops::OperationCost{.bytes = ops::bytes_of({gradient})}; });
  return gradient.is_cuda() ? squares_by_piece_cuda(gradient) : squares_by_piece_cpu(gradient);
}

}  // namespace terrace::optim
