// Implements forward and backward of the two layers of all experts.
#include "terrace/ops/experts/expert_feed_forward.h"

#include <optional>

#include "terrace/base/error.h"
#include "terrace/ops/experts/expert_products.h"
#include "terrace/ops/saved_object.h"
#include "terrace/ops/second_derivative.h"

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct ExpertArguments {
  ExpertOffsets offsets;
  ExpertWeights weights;
  Activation activation;
  WeightGradientQueue* deferred;
};

// Adds the gradients of one layer of all experts, or defers them.
void add_expert_gradients(const Weight& weight, const at::Tensor& dy, const at::Tensor& x, const ExpertOffsets& offsets,
                          WeightGradientQueue* deferred) {
  // Detached, since the graph of x would keep the input of a recomputed segment until the queue is run.
  run_or_defer(deferred, [gradient = weight.gradient, holds_sum = weight.gradient_holds_sum,
                          products = weight.products.weight_gradient, dy, x = x.detach(), offsets] {
    if (gradient.defined()) experts_add_outer_products(gradient, dy, x, offsets, products, begins_sum(holds_sum));
  });
}

class ExpertFeedForwardFunction : public torch::autograd::Function<ExpertFeedForwardFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& first,
                            const at::Tensor& second, const std::optional<at::Tensor>& p,
                            const ExpertArguments& arguments) {
    const auto& [offsets, weights, activation, deferred] = arguments;
    const at::Tensor rows = x.contiguous(), own_p = p ? p->contiguous() : at::Tensor();
    const auto [inner, active] =
        experts_activated(rows, own_p, offsets, first, activation, weights.first.products.forward);
    context->save_for_backward({x, first, second, own_p, inner, active});
    save_object(context, "arguments", arguments);
    return experts_times_transposed(active, offsets, second, weights.second.products.forward);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_derivative("expert_feed_forward");
    const auto saved = context->get_saved_variables();
    const at::Tensor &first = saved[1], &second = saved[2], &p = saved[3], &inner = saved[4], &active = saved[5];
    const auto& [offsets, weights, activation, deferred] = saved_object<ExpertArguments>(context, "arguments");
    const at::Tensor dy = gradients[0].contiguous();
    const auto [d_inner, d_p] =
        experts_activation_backward(dy, inner, p, offsets, second, activation, weights.second.products.input_gradient);
    add_expert_gradients(weights.second, dy, active, offsets, deferred);
    at::Tensor dx;
    if (context->needs_input_grad(0)) {
      dx = experts_times(d_inner, offsets, first, weights.first.products.input_gradient);
    }
    add_expert_gradients(weights.first, d_inner, saved[0].contiguous(), offsets, deferred);
    return {dx, {}, {}, d_p, {}};
  }
};

void check_shapes(const at::Tensor& x, const at::Tensor& p, const ExpertOffsets& offsets, const ExpertWeights& weights,
                  Activation activation) {
  const at::Tensor &first = weights.first.value, &second = weights.second.value;
  TERRACE_CHECK(activation != Activation::geglu, "experts with GeGLU");
  const int64_t inner = (activation == Activation::swiglu ? 2 : 1) * second.size(2);
  TERRACE_CHECK(x.dim() == 2 && first.size(0) == second.size(0) && first.size(1) == inner &&
                    first.size(2) == x.size(1) && second.size(1) == x.size(1) && first.is_contiguous() &&
                    second.is_contiguous(),
                "experts of {} x {} and {} x {} for rows of {}", first.size(1), first.size(2), second.size(1),
                second.size(2), x.size(-1));
  TERRACE_CHECK(
      static_cast<int64_t>(offsets.size()) == first.size(0) + 1 && offsets.front() == 0 && offsets.back() == x.size(0),
      "{} offsets of {} experts for {} rows", offsets.size(), first.size(0), x.size(0));
  const at::ScalarType computing = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  TERRACE_CHECK(!p.defined() || (p.numel() == x.size(0) && p.scalar_type() == computing), "{} weights in {} of {} rows",
                p.numel(), c10::toString(p.scalar_type()), x.size(0));
}

}  // namespace

at::Tensor expert_feed_forward(const at::Tensor& x, const at::Tensor& p, const std::vector<int64_t>& offsets,
                               const ExpertWeights& weights, Activation activation, WeightGradientQueue* deferred) {
  check_shapes(x, p, offsets, weights, activation);
  return ExpertFeedForwardFunction::apply(x, weights.first.value, weights.second.value,
                                          p.defined() ? std::optional(p) : std::nullopt,
                                          ExpertArguments{offsets, weights, activation, deferred});
}

}  // namespace terrace::ops
