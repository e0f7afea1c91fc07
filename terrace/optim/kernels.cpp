// Computes the coefficients of a step, and chooses the implementation by device.
#include "terrace/optim/kernels.h"

#include <cmath>

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

at::Tensor squares_by_piece(const at::Tensor& gradient) {
  const profile::OperationRecord record("terrace::squares",
                                        [&] { return profile::OperationCost{.bytes = profile::bytes_of({gradient})}; });
  return gradient.is_cuda() ? squares_by_piece_cuda(gradient) : squares_by_piece_cpu(gradient);
}

}  // namespace terrace::optim
