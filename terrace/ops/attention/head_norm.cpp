// Implements the norm of queries and keys over the norm kernels of the device.
#include "terrace/ops/attention/head_norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <array>

#include "terrace/base/error.h"
#include "terrace/ops/saved_object.h"
#include "terrace/ops/second_derivative.h"

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct HeadNormArguments {
  HeadLayout layout;
  NormShape shape;
  std::array<at::Tensor, 2> biases;                     // of the norms of queries and keys; may be undefined
  std::array<at::Tensor, 2> gradients, bias_gradients;  // of their weights and biases
  WeightGradientQueue* deferred = nullptr;
};

// The queries, keys and values of a contiguous joint.
std::array<at::Tensor, 3> heads_in(const at::Tensor& joint, const HeadLayout& layout) {
  const JointViews views = joint_views(joint, layout);
  return {views.queries, views.keys, views.values};
}

// Returns the tensor without a part in autograd, which takes no undefined tensors.
at::Tensor detached(const at::Tensor& t) { return t.defined() ? t.detach() : t; }

// A view of heads as [N, hd].
at::Tensor head_rows(const at::Tensor& view) { return view.contiguous().view({-1, view.size(-1)}); }

class HeadNormFunction : public torch::autograd::Function<HeadNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& joint, const at::Tensor& query,
                            const at::Tensor& key, const HeadNormArguments& arguments) {
    const auto statistics = joint.options().dtype(joint.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
    const at::Tensor dense = joint.contiguous();
    at::Tensor result = at::empty_like(dense);
    const auto from = heads_in(dense, arguments.layout), to = heads_in(result, arguments.layout);
    const std::array weights = {query, key};
    variable_list saved;
    for (size_t i = 0; i < weights.size(); ++i) {
      NormForward t{.x = head_rows(from[i]), .added = {}, .weight = weights[i], .bias = arguments.biases[i]};
      t.y = at::empty_like(t.x);
      t.inverse = at::empty({t.x.size(0)}, statistics);
      if (arguments.shape.centered) t.mean = at::empty_like(t.inverse);
      kernels(joint.device()).norm(arguments.shape, t);
      to[i].copy_(t.y.view(to[i].sizes()));
      saved.insert(saved.end(), {t.x, weights[i], t.inverse, t.mean});
    }
    to[2].copy_(from[2]);
    context->save_for_backward(saved);
    save_object(context, "arguments", arguments);
    return result;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_derivative("head_norm");
    const auto saved = context->get_saved_variables();
    const auto& arguments = saved_object<HeadNormArguments>(context, "arguments");
    const at::Tensor dense = gradients[0].contiguous();
    at::Tensor result = at::empty_like(dense);
    const auto from = heads_in(dense, arguments.layout), to = heads_in(result, arguments.layout);
    for (size_t i = 0; i < arguments.gradients.size(); ++i) {
      const at::Tensor &x = saved[4 * i], &inverse = saved[4 * i + 2], &gradient = arguments.gradients[i];
      NormBackward t{.dy = head_rows(from[i]),
                     .d_sum = {},
                     .x = x,
                     .weight = saved[4 * i + 1],
                     .mean = saved[4 * i + 3],
                     .inverse = inverse};
      t.dx = at::empty_like(x);
      if (gradient.defined()) t.weight_sums = at::zeros(t.weight.sizes(), inverse.options());
      if (arguments.bias_gradients[i].defined()) t.bias_sums = at::zeros(t.weight.sizes(), inverse.options());
      kernels(x.device()).norm_backward(arguments.shape, t);
      to[i].copy_(t.dx.view(to[i].sizes()));
      if (!gradient.defined()) continue;
      run_or_defer(arguments.deferred,
                   [gradient, of_bias = arguments.bias_gradients[i], sums = t.weight_sums, bias_sums = t.bias_sums] {
                     kernels(sums.device()).add(gradient, sums);
                     if (of_bias.defined()) kernels(sums.device()).add(of_bias, bias_sums);
                   });
    }
    to[2].copy_(from[2]);
    return {result, {}, {}, {}};
  }
};

}  // namespace

at::Tensor normalize_heads(const at::Tensor& joint, const HeadLayout& layout, const HeadNorm& query,
                           const HeadNorm& key, const NormShape& shape, WeightGradientQueue* deferred) {
  TERRACE_CHECK(joint.dim() == 3 && joint.size(2) == layout.columns(), "{} columns for heads of {}", joint.size(-1),
                layout.columns());
  return HeadNormFunction::apply(joint, query.weight.value, key.weight.value,
                                 HeadNormArguments{.layout = layout,
                                                   .shape = shape,
                                                   .biases = {detached(query.bias.value), detached(key.bias.value)},
                                                   .gradients = {query.weight.gradient, key.weight.gradient},
                                                   .bias_gradients = {query.bias.gradient, key.bias.gradient},
                                                   .deferred = deferred});
}

}  // namespace terrace::ops
