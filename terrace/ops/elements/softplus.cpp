// Implements the softplus as a differentiable function over our own kernel.
#include "terrace/ops/elements/softplus.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "terrace/ops/kernels.h"

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr double softplus_end = 20;  // in fp32 all that lies above is rounded away

class SoftplusFunction : public torch::autograd::Function<SoftplusFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, double shift) {
    const at::Tensor dense = x.contiguous();
    context->save_for_backward({dense});
    at::Tensor y = at::empty_like(dense);
    kernels(x.device()).softplus(dense, shift, y);
    return y;
  }

  // Backward consists of differentiable operations, for derivatives of the gradient.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor x = context->get_saved_variables()[0];
    at::Tensor slope = x.sigmoid();
    if (x.scalar_type() == at::kDouble) slope = slope.masked_fill(x.detach().gt(softplus_end), 1.0);
    return {at::GradMode::is_enabled() ? slope.mul(gradients[0]) : slope.mul_(gradients[0]), {}};
  }
};

}  // namespace

at::Tensor softplus(const at::Tensor& x, double shift) { return SoftplusFunction::apply(x, shift); }

}  // namespace terrace::ops
