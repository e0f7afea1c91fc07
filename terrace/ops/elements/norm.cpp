// Implements the norms as differentiable functions over the kernels of the device.
#include "terrace/ops/elements/norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <optional>

#include "terrace/ops/kernels.h"
#include "terrace/ops/saved_object.h"
#include "terrace/ops/second_derivative.h"

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct NormArguments {
  NormShape shape;
  Weight bias;
  at::Tensor weight_gradient;
  WeightGradientQueue* deferred = nullptr;
};

// Adds sums, which have the type of the statistics, to a gradient buffer, whose type may differ.
void add_sums(const at::Tensor& gradient, const at::Tensor& sums) {
  if (gradient.defined()) kernels(sums.device()).add(gradient, sums);
}

class NormFunction : public torch::autograd::Function<NormFunction> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const std::optional<at::Tensor>& addition,
                               const at::Tensor& weight, const NormArguments& arguments) {
    context->set_materialize_grads(false);
    const at::Tensor added = addition.value_or(at::Tensor());
    const auto rows = [&](const at::Tensor& t) {
      return t.defined() ? t.contiguous().view({-1, t.size(-1)}) : t;  // [N, D]
    };
    const auto statistics = x.options().dtype(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
    NormForward t{.x = rows(x), .added = rows(added), .weight = weight, .bias = arguments.bias.value};
    if (added.defined()) t.sum = at::empty_like(t.x);
    t.y = at::empty_like(t.x);
    if (arguments.shape.centered) t.mean = at::empty({t.x.size(0)}, statistics);
    t.inverse = at::empty({t.x.size(0)}, statistics);
    kernels(x.device()).norm(arguments.shape, t);
    context->save_for_backward({added.defined() ? t.sum : t.x, weight, t.mean, t.inverse});
    save_object(context, "arguments", arguments);
    context->saved_data["added"] = added.defined();
    return {added.defined() ? t.sum.view(x.sizes()) : x, t.y.view(x.sizes())};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_derivative("norm");
    const auto saved = context->get_saved_variables();
    const auto& arguments = saved_object<NormArguments>(context, "arguments");
    const at::Tensor& x = saved[0];
    const auto rows = [&](const at::Tensor& t) { return t.defined() ? t.contiguous().view(x.sizes()) : t; };
    NormBackward t{.dy = rows(gradients[1]),
                   .d_sum = rows(gradients[0]),
                   .x = x,
                   .weight = saved[1],
                   .mean = saved[2],
                   .inverse = saved[3]};
    const auto for_both = [&](const at::Tensor& dx) {
      return variable_list{dx, context->saved_data["added"].toBool() ? dx : at::Tensor(), {}, {}};
    };
    if (!t.dy.defined()) return for_both(gradients[0]);  // the norm itself was not used
    const auto sums_for = [&](const at::Tensor& gradient) {
      return gradient.defined() ? at::zeros(t.weight.sizes(), t.inverse.options()) : at::Tensor();
    };
    t.dx = at::empty_like(x);
    t.weight_sums = sums_for(arguments.weight_gradient);
    t.bias_sums = sums_for(arguments.bias.gradient);
    kernels(x.device()).norm_backward(arguments.shape, t);
    run_or_defer(arguments.deferred, [weight = arguments.weight_gradient, bias = arguments.bias.gradient,
                                      weight_sums = t.weight_sums, bias_sums = t.bias_sums] {
      add_sums(weight, weight_sums);
      add_sums(bias, bias_sums);
    });
    return for_both(t.dx.view(gradients[1].sizes()));
  }
};

at::Tensor norm(ResidualStream& stream, const Weight& weight, const Weight& bias, const NormShape& shape,
                WeightGradientQueue* deferred) {
  const std::optional<at::Tensor> added = stream.branch.defined() ? std::optional(stream.branch) : std::nullopt;
  const auto results =
      NormFunction::apply(stream.x, added, weight.value, NormArguments{shape, bias, weight.gradient, deferred});
  stream = {results[0]};
  return results[1];
}

}  // namespace

at::Tensor layer_norm(const at::Tensor& x, const Weight& weight, const Weight& bias, double epsilon) {
  ResidualStream stream{x};
  return layer_norm(stream, weight, bias, epsilon);
}

at::Tensor rms_norm(const at::Tensor& x, const Weight& weight, double epsilon, double weight_offset) {
  ResidualStream stream{x};
  return rms_norm(stream, weight, epsilon, nullptr, weight_offset);
}

at::Tensor layer_norm(ResidualStream& stream, const Weight& weight, const Weight& bias, double epsilon,
                      WeightGradientQueue* deferred) {
  return norm(stream, weight, bias, {.centered = true, .epsilon = epsilon}, deferred);
}

at::Tensor rms_norm(ResidualStream& stream, const Weight& weight, double epsilon, WeightGradientQueue* deferred,
                    double weight_offset) {
  return norm(stream, weight, {}, {.centered = false, .epsilon = epsilon, .weight_offset = weight_offset}, deferred);
}

}  // namespace terrace::ops
