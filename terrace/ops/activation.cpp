// Implements the activations as differentiable functions.
#include "terrace/ops/activation.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>

#include "terrace/base/error.h"
#include "terrace/ops/kernels.h"
#include "terrace/ops/saved_object.h"

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const char* name_in_torch(Gelu form) { return form == Gelu::tanh ? "tanh" : "none"; }

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
    const at::Tensor pairs = context->get_saved_variables()[0];
    at::Tensor dx = at::empty_like(pairs);
    kernels(pairs.device()).swiglu_backward(gradients[0].contiguous(), pairs, dx);
    return {dx};
  }
};

}  // namespace

at::Tensor gelu(const at::Tensor& x, Gelu form) { return at::gelu(x, name_in_torch(form)); }

at::Tensor gelu_backward(const at::Tensor& dy, const at::Tensor& x, Gelu form) {
  return at::gelu_backward(dy, x, name_in_torch(form));
}

at::Tensor swiglu(const at::Tensor& x) {
  TERRACE_CHECK(x.size(-1) % 2 == 0, "{} columns cannot hold pairs of gate and up", x.size(-1));
  return SwigluFunction::apply(x);
}

}  // namespace terrace::ops
