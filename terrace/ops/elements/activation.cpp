// Implements the activations as differentiable functions.
#include "terrace/ops/elements/activation.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/stack.h>

#include <utility>

#include "terrace/base/error.h"
#include "terrace/ops/kernels.h"
#include "terrace/ops/saved_object.h"
#include "terrace/ops/second_derivative.h"

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const char* name_in_torch(Activation gelu) { return gelu == Activation::gelu ? "tanh" : "none"; }

// Gate and up, views [.., F] of the pairs.
std::pair<at::Tensor, at::Tensor> parts_of(const at::Tensor& pairs) {
  const at::Tensor both = pairs.unflatten(-1, {pairs.size(-1) / 2, 2});
  return {both.select(-1, 0), both.select(-1, 1)};
}

class GatedFunction : public torch::autograd::Function<GatedFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, Activation activation) {
    const at::Tensor pairs = x.contiguous();
    context->save_for_backward({pairs});
    save_object(context, "activation", activation);
    if (activation == Activation::geglu) {
      const auto [gate, up] = parts_of(pairs);
      return at::gelu(gate, "tanh").mul_(up);
    }
    auto shape = x.sizes().vec();
    shape.back() /= 2;
    at::Tensor y = at::empty(shape, x.options());
    kernels(x.device()).swiglu(pairs, y);
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_derivative("activation");
    const auto& activation = saved_object<Activation>(context, "activation");
    return {activation_backward(gradients[0], context->get_saved_variables()[0], activation), {}};
  }
};

}  // namespace

at::Tensor activated(const at::Tensor& x, Activation activation) {
  if (!is_gated(activation)) return at::gelu(x, name_in_torch(activation));
  TERRACE_CHECK(x.size(-1) % 2 == 0, "{} columns cannot hold pairs of gate and up", x.size(-1));
  return GatedFunction::apply(x, activation);
}

at::Tensor activation_backward(const at::Tensor& dy, const at::Tensor& x, Activation activation) {
  if (!is_gated(activation)) return at::gelu_backward(dy, x, name_in_torch(activation));
  if (activation == Activation::geglu) {
    const auto [gate, up] = parts_of(x);
    return at::stack({at::gelu_backward(dy.mul(up), gate, "tanh"), at::gelu(gate, "tanh").mul_(dy)}, -1).flatten(-2);
  }
  at::Tensor dx = at::empty_like(x);
  kernels(x.device()).swiglu_backward(dy.contiguous(), x, dx);
  return dx;
}

}  // namespace terrace::ops
