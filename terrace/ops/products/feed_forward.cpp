// Implements forward and backward of the two layers.
#include "terrace/ops/products/feed_forward.h"

#include <optional>

#include "terrace/base/error.h"
#include "terrace/ops/cut.h"
#include "terrace/ops/products/linear.h"
#include "terrace/ops/products/products.h"
#include "terrace/ops/saved_object.h"
#include "terrace/ops/second_derivative.h"

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct FeedForwardArguments {
  FeedForwardWeights weights;
  WeightGradientQueue* deferred;
  Activation activation;
  std::optional<InnerDropout> dropout;

  // values [N, F] of x's positions.
  void drop(const at::Tensor& values, at::IntArrayRef x) const {
    if (dropout) drop_in_heads(values.view({x[0], x[1], values.size(1)}), dropout->heads, dropout->draw);
  }
};

class FeedForwardFunction : public torch::autograd::Function<FeedForwardFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& first,
                            const at::Tensor& second, const FeedForwardArguments& arguments) {
    const FeedForwardWeights& weights = arguments.weights;
    const at::Tensor whole = whole_sequence(cut_in(weights.first.cut, 0), x, "ffn");
    const auto [inner, active] = times_transposed_activated(
        rows_of(whole), first, weights.first_bias.value,
        products_for(whole.sizes(), whole.scalar_type(), weights.first.products.forward), arguments.activation);
    arguments.drop(active, whole.sizes());
    context->save_for_backward({x, first, second, inner, active});
    save_object(context, "arguments", arguments);
    if (cut_in(weights.second.cut, 1) != nullptr) {
      return sum_of_products(active, second, weights.second, weights.second_bias, whole.sizes().vec(), "ffn");
    }
    const Products products = products_for(whole.sizes(), whole.scalar_type(), weights.second.products.forward);
    return times_transposed(active, second, weights.second_bias.value, products).view(x.sizes());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_derivative("feed_forward");
    const auto saved = context->get_saved_variables();
    const at::Tensor &first = saved[1], &second = saved[2], &inner = saved[3], &active = saved[4];
    const auto& arguments = saved_object<FeedForwardArguments>(context, "arguments");
    const FeedForwardWeights& weights = arguments.weights;
    const Cut *by_outputs = cut_in(weights.first.cut, 0), *by_inputs = cut_in(weights.second.cut, 1);
    const at::Tensor own_dy = rows_of(gradients[0]).contiguous();
    const at::Tensor whole = whole_sequence(by_inputs, gradients[0], "ffn gradient");
    const at::Tensor dy = rows_of(whole).contiguous();                                   // [N, D]
    const at::Tensor x = rows_of(whole_sequence(by_outputs, saved[0], "ffn gradient"));  // [N, D]
    const at::Tensor d_inner =
        times_activation_backward(dy, second, inner, weights.second.products.input_gradient, arguments.activation);
    // The mask is a factor of each element, as the slope of the activation is.
    arguments.drop(d_inner, whole.sizes());
    std::optional<SharesSum> dx;
    const auto start_dx = [&] {
      if (!context->needs_input_grad(0)) return;
      dx.emplace(by_outputs, times(d_inner, first, weights.first.products.input_gradient).view(whole.sizes()),
                 "ffn gradient");
    };
    // With a cut, dx comes first, so that its sum overlaps with the weight gradients; without one it comes later, so
    // that its memory is allocated later.
    if (by_outputs != nullptr) start_dx();
    add_layer_gradients(weights.second, weights.second_bias, {dy, own_dy, active}, arguments.deferred);
    if (by_outputs == nullptr) start_dx();
    add_layer_gradients(weights.first, weights.first_bias, {d_inner, d_inner, x}, arguments.deferred);
    return {dx ? dx->finish() : at::Tensor(), {}, {}, {}};
  }
};

}  // namespace

at::Tensor feed_forward(const at::Tensor& x, const FeedForwardWeights& weights, Activation activation,
                        WeightGradientQueue* deferred, const std::optional<InnerDropout>& dropout) {
  TERRACE_CHECK(!dropout || !is_gated(activation), "dropout of pairs of columns");
  return FeedForwardFunction::apply(x, weights.first.value, weights.second.value,
                                    FeedForwardArguments{weights, deferred, activation, dropout});
}

}  // namespace terrace::ops
