// Implements the activations as differentiable functions.
#include "terrace/ops/elements/activation.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>

#include "terrace/base/error.h"
#include "terrace/ops/kernels.h"
#include "terrace/ops/saved_object.h"
#include "terrace/ops/second_derivative.h"

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const char* name_in_torch(Activation gelu) { return gelu == Activation::gelu ? "tanh" : "none"; }

class SwigluFunction : public torch::autograd::Function<SwigluFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    const at::Tensor pairs = x.contiguous();
    context->save_for_backward({pairs});
    auto shape = x.sizes().vec();
    shape.back() /= 2;
    at::Tensor y = at::empty(shape, x.options());
    kernels(x.device()).swiglu(pairs, y);
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_derivative("activation");
    return {activation_backward(gradients[0], context->get_saved_variables()[0], Activation::swiglu)};
  }
};

}  // namespace

at::Tensor activated(const at::Tensor& x, Activation activation) {
  if (activation != Activation::swiglu) return at::gelu(x, name_in_torch(activation));
  TERRACE_CHECK(x.size(-1) % 2 == 0, "{} columns cannot hold pairs of gate and up", x.size(-1));
  return SwigluFunction::apply(x);
}

at::Tensor activation_backward(const at::Tensor& dy, const at::Tensor& x, Activation activation) {
  if (activation != Activation::swiglu) return at::gelu_backward(dy, x, name_in_torch(activation));
  at::Tensor dx = at::empty_like(x);
  kernels(x.device()).swiglu_backward(dy.contiguous(), x, dx);
  return dx;
}

}  // namespace terrace::ops
