// Two functions, the activation and its derivative times a gradient, of which each one's backward is made of the other.
#include "terrace/ops/elements/silu.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <torch/csrc/autograd/custom_function.h>

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// s (1 - s) (2 + x (1 - 2 s)) with s = sigmoid(x).
at::Tensor second_derivative(const at::Tensor& x) {
  const at::Tensor s = x.sigmoid();
  if (at::GradMode::is_enabled()) return s.sub(s.square()).mul(x.mul(s.mul(-2).add(1)).add(2));
  at::Tensor bend = s.mul(-2).add_(1).mul_(x).add_(2);
  return bend.mul_(s).mul_(s.neg().add_(1));
}

// gradient * silu'(x).
class SiluSlope : public torch::autograd::Function<SiluSlope> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gradient, const at::Tensor& x) {
    context->save_for_backward({gradient, x});
    return at::silu_backward(gradient, x);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &gradient = saved[0], &x = saved[1], &above = gradients[0];
    at::Tensor of_gradient, of_x;
    if (context->needs_input_grad(0)) of_gradient = apply(above, x);
    if (context->needs_input_grad(1)) {
      const at::Tensor bend = second_derivative(x);
      of_x = at::GradMode::is_enabled() ? bend.mul(gradient).mul(above) : bend.mul_(gradient).mul_(above);
    }
    return {of_gradient, of_x};
  }
};

class SiluFunction : public torch::autograd::Function<SiluFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return at::silu(x);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {SiluSlope::apply(gradients[0], context->get_saved_variables()[0])};
  }
};

}  // namespace

at::Tensor silu(const at::Tensor& x) { return SiluFunction::apply(x); }

}  // namespace terrace::ops
