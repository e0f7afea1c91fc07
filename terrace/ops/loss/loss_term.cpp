// Scales the gradient of a sum.
#include "terrace/ops/loss/loss_term.h"

#include <torch/csrc/autograd/custom_function.h>

#include "terrace/ops/second_derivative.h"

namespace terrace::ops {
namespace {

class LossTermFunction : public torch::autograd::Function<LossTermFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& sum, double gradient_scale) {
    context->saved_data["gradient_scale"] = gradient_scale;
    context->saved_data["type"] = sum.scalar_type();
    return sum.to(at::kFloat);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    refuse_second_derivative("loss_term");
    const double scale = context->saved_data["gradient_scale"].toDouble();
    return {gradients[0].mul(scale).to(context->saved_data["type"].toScalarType()), {}};
  }
};

}  // namespace

at::Tensor loss_term(const at::Tensor& sum, double gradient_scale) {
  return LossTermFunction::apply(sum, gradient_scale);
}

}  // namespace terrace::ops
