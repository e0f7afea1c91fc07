// Forward and backward of the two layers.
#include "terrace/ops/feed_forward.h"

#include "terrace/ops/kernels.h"
#include "terrace/ops/products.h"
#include "terrace/ops/saved_object.h"

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct FeedForwardArguments {
  FeedForwardWeights weights;
  WeightGradientQueue* deferred;
};

// Adds the gradients of one layer now, or leaves them to the queue.
void add_gradients(const Weight& weight, const Weight& bias, const at::Tensor& dy, const at::Tensor& x,
                   WeightGradientQueue* deferred) {
  const auto add = [=, gradient = weight.gradient, bias_gradient = bias.gradient, products = weight.products] {
    add_outer_product(gradient, dy, x, products);
    if (bias_gradient.defined()) kernels(dy.device()).add_column_sums(bias_gradient, dy);
  };
  if (deferred) {
    deferred->push(add);
  } else {
    add();
  }
}

class GeluFeedForwardFunction : public torch::autograd::Function<GeluFeedForwardFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& first,
                            const at::Tensor& second, const FeedForwardArguments& arguments) {
    const FeedForwardWeights& weights = arguments.weights;
    const at::Tensor rows = x.reshape({-1, x.size(-1)});  // [N, D]
    const auto [inner, active] =
        times_transposed_gelu(rows, first, weights.first_bias.value, weights.first.products);  // [N, F]
    const at::Tensor y = times_transposed(active, second, weights.second_bias.value, weights.second.products);
    context->save_for_backward({rows, first, second, inner, active});
    save_object(context, "arguments", arguments);
    return y.view(x.sizes());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &rows = saved[0], &first = saved[1], &second = saved[2], &inner = saved[3], &active = saved[4];
    const auto& arguments = saved_object<FeedForwardArguments>(context, "arguments");
    const FeedForwardWeights& weights = arguments.weights;
    const at::Tensor dy = gradients[0].reshape({rows.size(0), -1}).contiguous();              // [N, D]
    const at::Tensor d_inner = times_gelu_slope(dy, second, inner, weights.second.products);  // [N, F]
    add_gradients(weights.second, weights.second_bias, dy, active, arguments.deferred);
    at::Tensor dx;
    if (context->needs_input_grad(0)) dx = times(d_inner, first, weights.first.products).view(gradients[0].sizes());
    add_gradients(weights.first, weights.first_bias, d_inner, rows, arguments.deferred);
    return {dx, {}, {}, {}};
  }
};

}  // namespace

at::Tensor gelu_feed_forward(const at::Tensor& x, const FeedForwardWeights& weights, WeightGradientQueue* deferred) {
  return GeluFeedForwardFunction::apply(x, weights.first.value, weights.second.value,
                                        FeedForwardArguments{weights, deferred});
}

}  // namespace terrace::ops
