// The functions of a router's scores, token by token. Sums over experts are in their order.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/ops/experts/router_functions.h"

namespace terrace::ops::cpu {
namespace {

constexpr int64_t router_grain = 8192;  // scores that are worth a thread

template <typename Body>
void for_router_type(const at::Tensor& z, const Body& body) {
  TERRACE_CHECK(z.is_contiguous(), "scores of a router with gaps");
  if (z.scalar_type() == at::kDouble) return body(double{});
  TERRACE_CHECK(z.scalar_type() == at::kFloat, "scores of a router in {}", c10::toString(z.scalar_type()));
  body(float{});
}

// Calls body(first token, end, scratch of `arrays` times E numbers) in all threads.
template <typename A, typename Body>
void over_tokens(const at::Tensor& z, int64_t arrays, const Body& body) {
  const int64_t experts = z.size(1);
  at::parallel_for(0, z.size(0), std::max<int64_t>(1, router_grain / experts), [&](int64_t begin, int64_t end) {
    std::vector<A> scratch(static_cast<size_t>(arrays * experts));
    body(begin, end, scratch.data());
  });
}

// Writes the soft-max of z to `powers` and returns logsumexp(z).
template <typename A>
A softmax_of(const A* z, int64_t experts, A* powers) {
  const A largest = *std::max_element(z, z + experts);
  A sum = 0;
  for (int64_t i = 0; i < experts; ++i) sum += powers[i] = std::exp(z[i] - largest);
  for (int64_t i = 0; i < experts; ++i) powers[i] /= sum;
  return largest + std::log(sum);
}

template <typename A>
void scores_of(RouterScores kind, const A* z, int64_t experts, A* scores) {
  if (kind == RouterScores::softmax) {
    softmax_of(z, experts, scores);
  } else {
    for (int64_t i = 0; i < experts; ++i) scores[i] = A{1} / (A{1} + std::exp(-z[i]));
  }
}

// The sum that sigmoids are divided by, of these experts or of all.
template <typename A>
A sum_of_scores(const A* scores, const int32_t* experts, int64_t count, A least) {
  A sum = 0;
  for (int64_t j = 0; j < count; ++j) sum += scores[experts == nullptr ? j : experts[j]];
  return sum + least;
}

template <typename A>
A least_sum(RouterScores kind) {
  return kind == RouterScores::sigmoid ? static_cast<A>(least_sum_of_sigmoids) : A{0};
}

// The number of the largest of the scores that are open, the first one of equals; it is no longer open then.
template <typename A>
int64_t take_best(const A* scores, int64_t count, char* open) {
  int64_t best = -1;
  for (int64_t i = 0; i < count; ++i) {
    if (open[i] != 0 && (best < 0 || scores[i] > scores[best])) best = i;
  }
  open[best] = 0;
  return best;
}

// Leaves the experts of the best groups open.
template <typename A>
void open_groups(const A* scores, int64_t experts, const RouterSettings& settings, std::vector<char>& open) {
  const int64_t size = experts / settings.groups;
  std::vector<A> sums(static_cast<size_t>(settings.groups), A{0});
  std::fill(open.begin(), open.end(), char{1});
  for (int64_t group = 0; group < settings.groups; ++group) {
    for (int64_t j = 0; j < settings.best_in_group; ++j) {
      const A* of_group = scores + group * size;
      sums[group] += of_group[take_best(of_group, size, open.data() + group * size)];
    }
  }
  std::fill(open.begin(), open.end(), char{0});
  std::vector<char> open_group(static_cast<size_t>(settings.groups), char{1});
  for (int64_t kept = 0; kept < settings.groups_kept; ++kept) {
    const int64_t group = take_best(sums.data(), settings.groups, open_group.data());
    std::fill_n(open.begin() + group * size, size, char{1});
  }
}

template <typename A>
void choose_of_token(const A* scores, int64_t experts, const RouterSettings& settings, std::vector<char>& open,
                     int32_t* chosen) {
  if (settings.groups_kept < settings.groups) {
    open_groups(scores, experts, settings, open);
  } else {
    std::fill(open.begin(), open.end(), char{1});
  }
  for (int64_t j = 0; j < settings.experts_per_token; ++j) {
    chosen[j] = static_cast<int32_t>(take_best(scores, experts, open.data()));
  }
}

at::Tensor choose(const at::Tensor& z, const at::Tensor& bias, const RouterSettings& settings) {
  const int64_t experts = z.size(1), k = settings.experts_per_token;
  const at::Tensor chosen = at::empty({z.size(0), k}, at::kInt);
  int32_t* to = chosen.mutable_data_ptr<int32_t>();
  for_router_type(z, [&]<typename A>(A) {
    const A *from = z.const_data_ptr<A>(), *added = bias.defined() ? bias.const_data_ptr<A>() : nullptr;
    over_tokens<A>(z, 1, [&](int64_t begin, int64_t end, A* scores) {
      std::vector<char> open(static_cast<size_t>(experts));
      for (int64_t n = begin; n < end; ++n) {
        scores_of(settings.scores, from + n * experts, experts, scores);
        for (int64_t i = 0; added != nullptr && i < experts; ++i) scores[i] += added[i];
        choose_of_token(scores, experts, settings, open, to + n * k);
      }
    });
  });
  return chosen;
}

// The counts of the sequence that a token belongs to.
const int64_t* counts_of(const RoutedScores& routed, int64_t token) {
  const int64_t tokens = routed.z.size(0) / routed.sequence_counts.size(0);
  return routed.sequence_counts.const_data_ptr<int64_t>() + token / tokens * routed.z.size(1);
}

template <typename A>
void weigh_token(const A* scores, const int32_t* chosen, const RouterSettings& settings, A* weights) {
  const int64_t k = settings.experts_per_token;
  const A sum = settings.normalised ? sum_of_scores(scores, chosen, k, least_sum<A>(settings.scores)) : A{1};
  for (int64_t j = 0; j < k; ++j) weights[j] = scores[chosen[j]] / sum * static_cast<A>(settings.factor);
}

// The sum over experts of the choices in the sequence times the token's share.
template <typename A>
double balance_of_token(const A* scores, const int64_t* counts, int64_t experts, RouterScores kind) {
  const A sum = kind == RouterScores::softmax ? A{1} : sum_of_scores<A>(scores, nullptr, experts, least_sum<A>(kind));
  double balance = 0;
  for (int64_t i = 0; i < experts; ++i)
    balance += static_cast<double>(counts[i]) * static_cast<double>(scores[i] / sum);
  return balance;
}

RoutedWeights weigh(const RoutedScores& routed, const RouterSettings& settings) {
  const at::Tensor& z = routed.z;
  const int64_t tokens = z.size(0), experts = z.size(1), k = settings.experts_per_token;
  RoutedWeights result{at::empty({tokens, k}, z.options()), at::zeros({}, at::kDouble), at::zeros({}, at::kDouble)};
  std::vector<std::pair<double, double>> losses(static_cast<size_t>(tokens));
  const int32_t* chosen = routed.experts.const_data_ptr<int32_t>();
  for_router_type(z, [&]<typename A>(A) {
    A* weights = result.weights.mutable_data_ptr<A>();
    over_tokens<A>(z, 1, [&](int64_t begin, int64_t end, A* scores) {
      for (int64_t n = begin; n < end; ++n) {
        const A* from = z.const_data_ptr<A>() + n * experts;
        const A log_sum = softmax_of(from, experts, scores);
        if (settings.scores == RouterScores::sigmoid) scores_of(settings.scores, from, experts, scores);
        weigh_token(scores, chosen + n * k, settings, weights + n * k);
        const double wide = static_cast<double>(log_sum);
        losses[n] = {balance_of_token(scores, counts_of(routed, n), experts, settings.scores), wide * wide};
      }
    });
  });
  double balance = 0, z_loss = 0;
  for (const auto& [of_balance, of_z] : losses) balance += of_balance, z_loss += of_z;
  result.balance_loss.fill_(balance * routed.balance_factor);
  result.z_loss.fill_(z_loss);
  return result;
}

// Adds the gradients of the scores that come from the weights.
template <typename A>
void add_slopes_of_weights(const A* scores, const int32_t* chosen, const A* upstream, const RouterSettings& settings,
                           A* slopes) {
  const int64_t k = settings.experts_per_token;
  const A factor = static_cast<A>(settings.factor);
  A sum = 1, mean = 0;  // of the upstream gradients by weight
  if (settings.normalised) {
    sum = sum_of_scores(scores, chosen, k, least_sum<A>(settings.scores));
    for (int64_t j = 0; j < k; ++j) mean += upstream[j] * (scores[chosen[j]] / sum);
  }
  for (int64_t j = 0; j < k; ++j) slopes[chosen[j]] += (upstream[j] - mean) / sum * factor;
}

// Adds those that come from the balance loss.
template <typename A>
void add_slopes_of_balance(const A* scores, const int64_t* counts, int64_t experts, RouterScores kind, double scale,
                           A* slopes) {
  const auto slope = [&](int64_t i) { return static_cast<A>(scale * static_cast<double>(counts[i])); };
  A sum = 1, mean = 0;
  if (kind == RouterScores::sigmoid) {
    sum = sum_of_scores<A>(scores, nullptr, experts, least_sum<A>(kind));
    for (int64_t i = 0; i < experts; ++i) mean += slope(i) * (scores[i] / sum);
  }
  for (int64_t i = 0; i < experts; ++i) slopes[i] += (slope(i) - mean) / sum;
}

// Replaces the gradients of the scores by those of z.
template <typename A>
void to_slopes_of_z(const A* scores, int64_t experts, RouterScores kind, A* slopes) {
  A mean = 0;
  if (kind == RouterScores::softmax) {
    for (int64_t i = 0; i < experts; ++i) mean += scores[i] * slopes[i];
  }
  for (int64_t i = 0; i < experts; ++i) {
    const A growth = kind == RouterScores::softmax ? A{1} : A{1} - scores[i];
    slopes[i] = scores[i] * growth * (slopes[i] - mean);
  }
}

at::Tensor backward(const RoutedScores& routed, const RouterSettings& settings, const RoutedGradients& gradients) {
  const at::Tensor& z = routed.z;
  const int64_t experts = z.size(1), k = settings.experts_per_token;
  const at::Tensor dz = at::empty_like(z);
  const int32_t* chosen = routed.experts.const_data_ptr<int32_t>();
  const double balance_scale = gradients.balance_loss * routed.balance_factor;
  for_router_type(z, [&]<typename A>(A) {
    const A* upstream = gradients.weights.const_data_ptr<A>();
    over_tokens<A>(z, 2, [&](int64_t begin, int64_t end, A* scores) {
      A* powers = scores + experts;
      for (int64_t n = begin; n < end; ++n) {
        const A* from = z.const_data_ptr<A>() + n * experts;
        A* slopes = dz.mutable_data_ptr<A>() + n * experts;
        std::fill_n(slopes, experts, A{0});
        scores_of(settings.scores, from, experts, scores);
        add_slopes_of_weights(scores, chosen + n * k, upstream + n * k, settings, slopes);
        if (balance_scale != 0)
          add_slopes_of_balance(scores, counts_of(routed, n), experts, settings.scores, balance_scale, slopes);
        to_slopes_of_z(scores, experts, settings.scores, slopes);
        if (gradients.z_loss == 0) continue;
        const A scale = static_cast<A>(2 * gradients.z_loss) * softmax_of(from, experts, powers);
        for (int64_t i = 0; i < experts; ++i) slopes[i] += scale * powers[i];
      }
    });
  });
  return dz;
}

}  // namespace

const RouterFunctions& router_functions() {
  static constexpr RouterFunctions functions{choose, weigh, backward};
  return functions;
}

}  // namespace terrace::ops::cpu
