// Computes scores, chooses by them, and gives the weights of the choices a derivative.
#include "terrace/ops/experts/router.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/zeros.h>

#include "terrace/base/error.h"
#include "terrace/ops/cut.h"
#include "terrace/ops/experts/router_functions.h"
#include "terrace/ops/products/products.h"
#include "terrace/ops/saved_object.h"
#include "terrace/ops/second_derivative.h"

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::ScalarType computing_type(const at::Tensor& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

at::Tensor wide_rows(const at::Tensor& x) { return rows_of(x).to(computing_type(x)).contiguous(); }

struct RouterArguments {
  Weight router;
  RouterSettings settings;
  RouterLosses losses;
  RoutedScores routed;
  WeightGradientQueue* deferred;
};

class RouterFunction : public torch::autograd::Function<RouterFunction> {
 public:
  // Writes the losses into `routing`.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor&,
                            const RouterArguments& arguments, Routing* routing) {
    context->save_for_backward({x});
    save_object(context, "arguments", arguments);
    const RoutedWeights weighed = router_functions(x.device()).weigh(arguments.routed, arguments.settings);
    routing->balance_loss = weighed.balance_loss;
    routing->z_loss = weighed.z_loss;
    return weighed.weights;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_derivative("route");
    const at::Tensor x = context->get_saved_variables()[0];
    const auto& [router, settings, losses, routed, deferred] = saved_object<RouterArguments>(context, "arguments");
    const RoutedGradients of_weights{gradients[0].contiguous(), losses.balance_scale, losses.z_scale};
    const at::Tensor dz = router_functions(x.device()).backward(routed, settings, of_weights);
    at::Tensor dx;
    if (context->needs_input_grad(0)) {
      dx = times(dz, router.value.detach(), router.products.input_gradient).to(x.scalar_type()).view(x.sizes());
    }
    run_or_defer(deferred, [gradient = router.gradient, products = router.products.weight_gradient, dz,
                            holds_sum = router.gradient_holds_sum, rows = x.detach()] {
      if (gradient.defined()) add_outer_product(gradient, dz, wide_rows(rows), products, begins_sum(holds_sum));
    });
    return {dx, {}, {}, {}};
  }
};

void check_settings(const RouterSettings& settings, const RouterLosses& losses, int64_t tokens, int64_t experts) {
  const auto& [k, scores, normalised, factor, groups, kept, best] = settings;
  TERRACE_CHECK(
      k >= 1 && groups >= 1 && kept >= 1 && kept <= groups && experts % groups == 0 && k <= kept * (experts / groups),
      "{} of {} experts a token, in {} of {} groups", k, experts, kept, groups);
  TERRACE_CHECK(kept == groups || (best >= 1 && best <= experts / groups), "the {} best of groups of {} experts", best,
                experts / groups);
  TERRACE_CHECK(losses.sequences >= 1 && tokens % losses.sequences == 0, "{} tokens of {} sequences", tokens,
                losses.sequences);
}

// The choices of each expert by sequence.
at::Tensor counts_of_sequences(const at::Tensor& chosen, int64_t sequences, int64_t experts) {
  if (!chosen.is_cpu()) return at::one_hot(chosen.to(at::kLong).view({sequences, -1}), experts).sum(1);
  const at::Tensor counts = at::zeros({sequences, experts}, at::kLong);
  const int32_t* from = chosen.const_data_ptr<int32_t>();
  int64_t* to = counts.mutable_data_ptr<int64_t>();
  const int64_t of_sequence = chosen.numel() / sequences;
  for (int64_t i = 0; i < chosen.numel(); ++i) ++to[i / of_sequence * experts + from[i]];
  return counts;
}

ExpertChoice choose_experts(const at::Tensor& z, const at::Tensor& bias, const RouterSettings& settings,
                            const RouterLosses& losses) {
  const at::NoGradGuard no_grad;
  ExpertChoice choice;
  choice.experts = router_functions(z.device()).choose(z, bias, settings);
  choice.sequence_counts = counts_of_sequences(choice.experts, losses.sequences, z.size(1));
  choice.counts = choice.sequence_counts.sum(0);
  if (losses.sum_counts) losses.sum_counts(choice.sequence_counts);
  return choice;
}

}  // namespace

at::Tensor router_scores(const at::Tensor& x, const at::Tensor& weight) {
  const at::NoGradGuard no_grad;
  const at::Tensor rows = wide_rows(x);
  TERRACE_CHECK(weight.scalar_type() == rows.scalar_type(), "a router in {} for rows of {}",
                c10::toString(weight.scalar_type()), c10::toString(x.scalar_type()));
  // Our product adds up each element by itself, in ascending order; where there is none, decoding has such rows.
  const bool own = own_products(rows, Products::own);
  return times_transposed(rows, weight, {}, own ? Products::own : Products::decoding);
}

Routing route(const at::Tensor& x, const Weight& router, const at::Tensor& bias, const RouterSettings& settings,
              const RouterLosses& losses, WeightGradientQueue* deferred, const ExpertChoice* made) {
  RouterArguments arguments{router, settings, losses, {.z = router_scores(x, router.value)}, deferred};
  RoutedScores& routed = arguments.routed;
  const int64_t tokens = routed.z.size(0), experts = routed.z.size(1), k = settings.experts_per_token;
  check_settings(settings, losses, tokens, experts);
  Routing routing;
  routing.choice = made != nullptr ? *made : choose_experts(routed.z, bias, settings, losses);
  const at::Tensor& chosen = routing.choice.experts;
  TERRACE_CHECK(chosen.size(0) == tokens && chosen.size(1) == k, "a choice of {} x {} for {} tokens", chosen.size(0),
                chosen.size(1), tokens);
  const auto length = static_cast<double>(losses.length > 0 ? losses.length : tokens / losses.sequences);
  routed.experts = chosen;
  routed.sequence_counts = routing.choice.sequence_counts;
  routed.balance_factor = static_cast<double>(experts) / (static_cast<double>(k) * length * length);
  arguments.losses.sum_counts = nullptr;  // it may own what must not live until backward
  routing.weights = RouterFunction::apply(x, router.value, arguments, &routing);
  return routing;
}

}  // namespace terrace::ops
