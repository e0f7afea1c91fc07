// The norms as differentiable functions over the kernels of the device.
#include "terrace/ops/norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "terrace/ops/kernels.h"
#include "terrace/ops/saved_object.h"

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct NormArguments {
  NormShape shape;
  Weight bias;
  at::Tensor weight_gradient;
};

// The kernels sum in the type of the statistics; the buffer may have another.
void add_sums(const at::Tensor& gradient, const at::Tensor& sums) {
  if (gradient.defined()) kernels(sums.device()).add(gradient, sums);
}

class NormFunction : public torch::autograd::Function<NormFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const NormArguments& arguments) {
    const at::Tensor rows = x.contiguous().view({-1, x.size(-1)});  // [N, D]
    const auto statistics = x.options().dtype(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
    const at::Tensor mean = arguments.shape.centered ? at::empty({rows.size(0)}, statistics) : at::Tensor();
    const at::Tensor inverse = at::empty({rows.size(0)}, statistics);
    at::Tensor y = at::empty_like(rows);
    kernels(x.device()).norm(arguments.shape, rows, weight, arguments.bias.value, y, mean, inverse);
    context->save_for_backward({rows, weight, mean, inverse});
    save_object(context, "arguments", arguments);
    return y.view(x.sizes());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &rows = saved[0], &weight = saved[1], &mean = saved[2], &inverse = saved[3];
    const auto& arguments = saved_object<NormArguments>(context, "arguments");
    const at::Tensor dy = gradients[0].contiguous().view(rows.sizes());
    at::Tensor dx = at::empty_like(rows);
    const auto sums_for = [&](const at::Tensor& gradient) {
      return gradient.defined() ? at::zeros(weight.sizes(), inverse.options()) : at::Tensor();
    };
    const at::Tensor weight_sums = sums_for(arguments.weight_gradient);
    const at::Tensor bias_sums = sums_for(arguments.bias.gradient);
    kernels(dy.device()).norm_backward(arguments.shape, dy, rows, weight, mean, inverse, dx, weight_sums, bias_sums);
    add_sums(arguments.weight_gradient, weight_sums);
    add_sums(arguments.bias.gradient, bias_sums);
    return {dx.view(gradients[0].sizes()), {}, {}};
  }
};

}  // namespace

at::Tensor layer_norm(const at::Tensor& x, const Weight& weight, const Weight& bias, double epsilon) {
  const NormShape shape{.centered = true, .epsilon = epsilon};
  return NormFunction::apply(x, weight.value, NormArguments{shape, bias, weight.gradient});
}

at::Tensor rms_norm(const at::Tensor& x, const Weight& weight, double epsilon) {
  const NormShape shape{.centered = false, .epsilon = epsilon};
  return NormFunction::apply(x, weight.value, NormArguments{shape, {}, weight.gradient});
}

}  // namespace terrace::ops
