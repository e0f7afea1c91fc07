// Checks the router: scores whose rows have the same bits in every batch, choices by hand, and weights, losses and
// gradients against plain loops in double precision.
#include "terrace/ops/experts/router.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "terrace/ops/experts/router_functions.h"
#include "terrace/ops/products/products.h"

namespace terrace::ops {
namespace {

at::Tensor drawn(at::IntArrayRef shape, at::ScalarType type, uint64_t seed) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::TensorOptions().dtype(at::kDouble))
      .to(type);
}

Weight router_weight(int64_t experts, int64_t inputs, at::ScalarType type, uint64_t seed) {
  return {drawn({experts, inputs}, type, seed).set_requires_grad(true),
          at::zeros({experts, inputs}, at::TensorOptions().dtype(type))};
}

at::Tensor row_of(const std::vector<double>& numbers, at::ScalarType type = at::kFloat) {
  at::Tensor row = at::zeros({1, static_cast<int64_t>(numbers.size())}, at::TensorOptions().dtype(type));
  for (size_t i = 0; i < numbers.size(); ++i) row[0][static_cast<int64_t>(i)] = numbers[i];
  return row;
}

std::vector<int32_t> numbers_of(const at::Tensor& chosen) {
  return {chosen.const_data_ptr<int32_t>(), chosen.const_data_ptr<int32_t>() + chosen.numel()};
}

TEST(RouterScores, RowsHaveTheSameBitsInEveryBatchAndOnAnyThreads) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t inputs : {1, 63, 200, 1700}) {
      for (const int64_t experts : {4, 7, 64}) {
        SCOPED_TRACE(::testing::Message() << c10::toString(type) << " " << inputs << " -> " << experts);
        const at::Tensor x = drawn({97, inputs}, type, 1), weight = drawn({experts, inputs}, at::kFloat, 2);
        at::set_num_threads(1);
        const at::Tensor whole = router_scores(x, weight);
        EXPECT_EQ(whole.scalar_type(), at::kFloat);
        const at::Tensor exact = x.to(at::kDouble).mm(weight.to(at::kDouble).t());
        const double size = 6 * std::sqrt(static_cast<double>(inputs)) * 0x1p-24;
        const at::Tensor bound = x.to(at::kDouble).abs().mm(weight.to(at::kDouble).abs().t()).mul(size);
        EXPECT_LE(whole.to(at::kDouble).sub(exact).abs().sub(bound).max().item<double>(), 0);
        for (const int threads : {1, 2, 3}) {
          at::set_num_threads(threads);
          for (const auto& [begin, count] : {std::pair{0, 1}, {96, 1}, {5, 42}, {48, 49}, {0, 97}}) {
            EXPECT_TRUE(router_scores(x.narrow(0, begin, count), weight).equal(whole.narrow(0, begin, count)))
                << begin << " " << count << " " << threads;
          }
        }
        at::set_num_threads(1);
      }
    }
  }
}

RouterSettings grouped(int64_t k, int64_t groups, int64_t kept, int64_t best_in_group) {
  return {.experts_per_token = k,
          .scores = RouterScores::sigmoid,
          .groups = groups,
          .groups_kept = kept,
          .best_in_group = best_in_group};
}

// Every function of scores, on both kinds of devices.
const RouterFunctions* all_router_functions[] = {&cpu::router_functions(), &router_functions_of_torch()};

TEST(RouterChoice, TakesTheBestInTheirOrderAndTheLowerOfEquals) {
  for (const RouterFunctions* functions : all_router_functions) {
    for (const RouterScores kind : {RouterScores::softmax, RouterScores::sigmoid}) {
      const RouterSettings settings{.experts_per_token = 4, .scores = kind};
      EXPECT_EQ(numbers_of(functions->choose(row_of({1, 3, 2, 3, 1, 1}), {}, settings)),
                (std::vector<int32_t>{1, 3, 2, 0}));
    }
  }
}

// Sums of the two best of groups {0 1}, {2 3}, {4 5}, {6 7} as sigmoids: the second has the best expert, the third and
// the first the best pairs.
TEST(RouterChoice, StaysInsideTheBestGroups) {
  const at::Tensor z = row_of({1, 1, 3, -9, 2, 2, -1, -1});
  for (const RouterFunctions* functions : all_router_functions) {
    EXPECT_EQ(numbers_of(functions->choose(z, {}, grouped(3, 4, 2, 2))), (std::vector<int32_t>{4, 5, 0}));
    EXPECT_EQ(numbers_of(functions->choose(z, {}, grouped(3, 4, 2, 1))), (std::vector<int32_t>{2, 4, 5}));
    EXPECT_EQ(numbers_of(functions->choose(z, {}, grouped(3, 1, 1, 2))), (std::vector<int32_t>{2, 4, 5}));
  }
}

// A bias that makes all sums negative must not let the experts of other groups in, as a mask of zeros would.
TEST(RouterChoice, ABiasMovesTheChoiceAndLeavesTheWeights) {
  const at::Tensor z = row_of({2, 1, 0, -1}), bias = row_of({-9, -8, -7, -6})[0];
  for (const RouterFunctions* functions : all_router_functions) {
    RouterSettings settings = grouped(2, 2, 1, 2);
    const at::Tensor chosen = functions->choose(z, bias, settings);
    EXPECT_EQ(numbers_of(chosen), (std::vector<int32_t>{3, 2}));
    const RoutedScores routed{z, chosen, at::zeros({1, 4}, at::kLong), 0};
    const at::Tensor weights = functions->weigh(routed, settings).weights;
    EXPECT_NEAR(weights[0][0].item<double>(), 1 / (1 + std::exp(1.0)), 1e-7);
    EXPECT_NEAR(weights[0][1].item<double>(), 0.5, 1e-7);
  }
}

TEST(RouterChoice, IsValidWhereAScoreIsNotANumber) {
  const at::Tensor z = row_of({std::nan(""), 1, std::nan(""), 0});
  std::vector<int32_t> chosen = numbers_of(cpu::router_functions().choose(z, {}, {.experts_per_token = 3}));
  std::sort(chosen.begin(), chosen.end());
  EXPECT_EQ(std::unique(chosen.begin(), chosen.end()), chosen.end());
  EXPECT_GE(chosen.front(), 0);
  EXPECT_LT(chosen.back(), 4);
}

struct RouterCase {
  const char* name;
  RouterSettings settings;
  bool bias;
};

const RouterCase router_cases[] = {
    {"Mixtral", {.experts_per_token = 2, .normalised = true}, false},
    {"OLMoE", {.experts_per_token = 3}, false},
    {"one", {.experts_per_token = 1, .normalised = true}, false},
    {"DeepSeek-V3",
     {.experts_per_token = 3,
      .scores = RouterScores::sigmoid,
      .normalised = true,
      .factor = 2.5,
      .groups = 4,
      .groups_kept = 2},
     true},
    {"plain sigmoids", {.experts_per_token = 2, .scores = RouterScores::sigmoid, .factor = 0.5}, true},
    {"soft-max in groups",
     {.experts_per_token = 2, .normalised = true, .groups = 2, .groups_kept = 1, .best_in_group = 1},
     true},
};

// Losses of two sequences of three tokens, with factors that are far from 1.
RouterLosses some_losses() { return {.sequences = 2, .balance_scale = 0.7, .z_scale = -0.3}; }

struct PlainRouting {
  std::vector<double> weights;
  double balance = 0, z = 0;
};

// The definitions, one token after another.
PlainRouting plain_routing(const at::Tensor& x, const at::Tensor& w, const RouterCase& c,
                           const std::vector<int32_t>& chosen, int64_t sequences) {
  const int64_t tokens = x.size(0), experts = w.size(0), k = c.settings.experts_per_token, length = tokens / sequences;
  PlainRouting routing;
  for (int64_t n = 0; n < tokens; ++n) {
    std::vector<double> z, scores;
    double sum = 0, powers = 0, of_chosen = 0;
    for (int64_t i = 0; i < experts; ++i) {
      z.push_back(x[n].dot(w[i]).item<double>());
      powers += std::exp(z.back());
    }
    for (int64_t i = 0; i < experts; ++i) {
      const bool softmax = c.settings.scores == RouterScores::softmax;
      scores.push_back(softmax ? std::exp(z[i]) / powers : 1 / (1 + std::exp(-z[i])));
      sum += scores.back();
    }
    for (int64_t j = 0; j < k; ++j) of_chosen += scores[chosen[n * k + j]];
    for (int64_t j = 0; j < k; ++j) {
      const double score = scores[chosen[n * k + j]];
      routing.weights.push_back(c.settings.factor * (c.settings.normalised ? score / of_chosen : score));
    }
    for (int64_t other = n / length * length * k; other < (n / length + 1) * length * k; ++other) {
      routing.balance +=
          scores[chosen[other]] / sum * static_cast<double>(experts) / static_cast<double>(k * length * length);
    }
    routing.z += std::pow(std::log(powers), 2);
  }
  return routing;
}

// The function that backward differentiates: the weights times these upstream gradients, and both losses times their
// factors.
double plain_total(const at::Tensor& x, const at::Tensor& w, const RouterCase& c, const std::vector<int32_t>& chosen,
                   const at::Tensor& upstream) {
  const RouterLosses losses = some_losses();
  const PlainRouting routing = plain_routing(x, w, c, chosen, losses.sequences);
  double total = losses.balance_scale * routing.balance + losses.z_scale * routing.z;
  for (size_t i = 0; i < routing.weights.size(); ++i) {
    total += routing.weights[i] * upstream.flatten()[static_cast<int64_t>(i)].item<double>();
  }
  return total;
}

// Central differences with an error of about 1e-9.
at::Tensor differences(const at::Tensor& at_point, const std::function<double(const at::Tensor&)>& function) {
  constexpr double step = 1e-5;
  at::Tensor slopes = at::zeros(at_point.sizes(), at::kDouble);
  for (int64_t i = 0; i < at_point.numel(); ++i) {
    const auto moved = [&](double by) {
      at::Tensor point = at_point.clone();
      point.view(-1)[i] += by;
      return function(point);
    };
    slopes.view(-1)[i] = (moved(step) - moved(-step)) / (2 * step);
  }
  return slopes;
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return a.to(at::kDouble).sub(b).abs().max().item<double>();
}

TEST(Router, WeightsLossesAndGradientsAreThoseOfTheirDefinitions) {
  at::set_num_threads(2);
  for (const RouterCase& c : router_cases) {
    SCOPED_TRACE(c.name);
    const at::Tensor upstream = drawn({6, c.settings.experts_per_token}, at::kDouble, 4);
    const at::Tensor bias = c.bias ? drawn({8}, at::kDouble, 5) : at::Tensor();
    for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
      const at::Tensor x = drawn({6, 5}, type, 6).set_requires_grad(true);
      const Weight router = router_weight(8, 5, type, 7);
      const at::Tensor own_bias = c.bias ? bias.to(type) : bias;
      const Routing routing = route(x, router, own_bias, c.settings, some_losses());
      torch::autograd::backward({routing.weights}, {upstream.to(type)});
      const at::Tensor wide_x = x.detach().to(at::kDouble), wide_w = router.value.detach().to(at::kDouble);
      const std::vector<int32_t> chosen = numbers_of(routing.choice.experts);
      const PlainRouting plain = plain_routing(wide_x, wide_w, c, chosen, 2);
      // Scores of about 1, sums of 8 and derivatives of products of three of them.
      const double tolerance = type == at::kDouble ? 1e-8 : 100 * 0x1p-24;
      for (size_t i = 0; i < plain.weights.size(); ++i) {
        EXPECT_NEAR(routing.weights.detach().flatten()[static_cast<int64_t>(i)].item<double>(), plain.weights[i],
                    tolerance);
      }
      EXPECT_NEAR(routing.balance_loss.item<double>(), plain.balance, tolerance * plain.balance);
      EXPECT_NEAR(routing.z_loss.item<double>(), plain.z, tolerance * plain.z);
      const at::Tensor dx =
          differences(wide_x, [&](const at::Tensor& point) { return plain_total(point, wide_w, c, chosen, upstream); });
      const at::Tensor dw =
          differences(wide_w, [&](const at::Tensor& point) { return plain_total(wide_x, point, c, chosen, upstream); });
      EXPECT_LE(largest_difference(x.grad(), dx), tolerance * (1 + dx.abs().max().item<double>()));
      EXPECT_LE(largest_difference(router.gradient, dw), tolerance * (1 + dw.abs().max().item<double>()));
      EXPECT_FALSE(router.value.grad().defined());
    }
  }
  at::set_num_threads(1);
}

// GPUs compute with them.
TEST(Router, OperationsOfTorchGiveTheSame) {
  for (const RouterCase& c : router_cases) {
    SCOPED_TRACE(c.name);
    const at::Tensor z = drawn({12, 8}, at::kDouble, 8).mul(2);
    const at::Tensor bias = c.bias ? drawn({8}, at::kDouble, 5) : at::Tensor();
    const auto& [choose, weigh, backward] = router_functions_of_torch();
    const RouterFunctions& ours = cpu::router_functions();
    const at::Tensor chosen = choose(z, bias, c.settings);
    EXPECT_TRUE(chosen.equal(ours.choose(z, bias, c.settings)));
    const at::Tensor counts = drawn({3, 8}, at::kDouble, 9).abs().mul(5).to(at::kLong);
    const RoutedScores routed{z, chosen, counts, 0.3};
    const RoutedWeights a = weigh(routed, c.settings), b = ours.weigh(routed, c.settings);
    EXPECT_LE(largest_difference(a.weights, b.weights), 1e-12);
    EXPECT_NEAR(a.balance_loss.item<double>(), b.balance_loss.item<double>(), 1e-12 * b.balance_loss.item<double>());
    EXPECT_NEAR(a.z_loss.item<double>(), b.z_loss.item<double>(), 1e-12 * b.z_loss.item<double>());
    const RoutedGradients gradients{drawn(a.weights.sizes(), at::kDouble, 10), 0.4, -0.2};
    EXPECT_LE(largest_difference(backward(routed, c.settings, gradients), ours.backward(routed, c.settings, gradients)),
              1e-11);
  }
}

TEST(Router, CountsChoicesByExpertAndSequence) {
  const at::Tensor x = at::cat({row_of({4, 3, 2, 1}), row_of({1, 2, 3, 4})});
  Weight router{at::zeros({4, 4}), {}};
  router.value.fill_diagonal_(1);
  const Routing routing = route(x, router, {}, {.experts_per_token = 2}, {.sequences = 2});
  EXPECT_EQ(numbers_of(routing.choice.experts), (std::vector<int32_t>{0, 1, 3, 2}));
  EXPECT_TRUE(routing.choice.counts.equal(at::zeros({4}, at::kLong).add(1)));
  EXPECT_TRUE(routing.choice.sequence_counts[0].equal(row_of({1, 1, 0, 0}, at::kLong)[0]));
  EXPECT_TRUE(routing.choice.sequence_counts[1].equal(row_of({0, 0, 1, 1}, at::kLong)[0]));
}

// With equal scores the probabilities are even, and so is the load that the loss counts.
TEST(Router, BalanceLossOfEvenProbabilitiesIsTheNumberOfSequences) {
  for (const RouterScores kind : {RouterScores::softmax, RouterScores::sigmoid}) {
    const Routing routing = route(drawn({12, 3}, at::kFloat, 1), {at::zeros({6, 3}), {}}, {},
                                  {.experts_per_token = 2, .scores = kind}, {.sequences = 3});
    EXPECT_NEAR(routing.balance_loss.item<double>(), 3, 1e-6);
    EXPECT_NEAR(routing.z_loss.item<double>(), 12 * std::pow(std::log(6.0), 2), 1e-5);
  }
}

// Two ranks with half of the tokens of each sequence, as with context parallelism.
TEST(Router, RanksWithPartsOfSequencesHaveTheLossesOfTheWhole) {
  const RouterSettings settings{.experts_per_token = 2, .scores = RouterScores::sigmoid, .normalised = true};
  const at::Tensor x = drawn({2, 8, 5}, at::kDouble, 11), upstream = drawn({2, 8, 2}, at::kDouble, 12);
  const Weight whole_router = router_weight(6, 5, at::kDouble, 13), cut_router = router_weight(6, 5, at::kDouble, 13);
  RouterLosses losses{.sequences = 2, .balance_scale = 0.9, .z_scale = 0.2};
  const Routing whole = route(x, whole_router, {}, settings, losses);
  torch::autograd::backward({whole.weights}, {upstream.view({16, 2})});
  losses.length = 8;
  losses.sum_counts = [&](const at::Tensor& counts) { counts.copy_(whole.choice.sequence_counts); };
  double balance = 0, z = 0;
  for (const int64_t half : {0, 1}) {
    const Routing part = route(x.narrow(1, 4 * half, 4), cut_router, {}, settings, losses);
    torch::autograd::backward({part.weights}, {upstream.narrow(1, 4 * half, 4).reshape({8, 2})});
    balance += part.balance_loss.item<double>(), z += part.z_loss.item<double>();
  }
  EXPECT_NEAR(balance, whole.balance_loss.item<double>(), 1e-12);
  EXPECT_NEAR(z, whole.z_loss.item<double>(), 1e-12);
  EXPECT_LE(largest_difference(cut_router.gradient, whole_router.gradient), 1e-12);
}

TEST(Router, TakesAChoiceThatWasMade) {
  const RouterSettings settings{.experts_per_token = 2, .normalised = true};
  const at::Tensor x = drawn({9, 7}, at::kBFloat16, 14), same = x.clone();
  x.set_requires_grad(true), same.set_requires_grad(true);
  const Weight router = router_weight(5, 7, at::kFloat, 15), again = router_weight(5, 7, at::kFloat, 15);
  int calls = 0;
  const RouterLosses losses{.balance_scale = 0.5, .sum_counts = [&](const at::Tensor&) { ++calls; }};
  const Routing first = route(x, router, {}, settings, losses);
  const Routing second = route(same, again, {}, settings, losses, nullptr, &first.choice);
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(second.weights.equal(first.weights));
  EXPECT_TRUE(second.choice.experts.equal(first.choice.experts));
  torch::autograd::backward({first.weights.sum()}, {});
  torch::autograd::backward({second.weights.sum()}, {});
  EXPECT_TRUE(same.grad().equal(x.grad()));
  EXPECT_TRUE(again.gradient.equal(router.gradient));
  // A choice that the scores would not make is taken too.
  ExpertChoice other = first.choice;
  other.experts = other.experts.add(1).remainder(5).to(at::kInt);
  const Routing third = route(x, router, {}, settings, losses, nullptr, &other);
  EXPECT_TRUE(third.choice.experts.equal(other.experts));
  EXPECT_FALSE(third.weights.equal(first.weights));
}

TEST(Router, DefersTheGradientOfItsWeight) {
  const at::Tensor x = drawn({9, 7}, at::kBFloat16, 16).set_requires_grad(true);
  const Weight router = router_weight(5, 7, at::kFloat, 17), later = router_weight(5, 7, at::kFloat, 17);
  WeightGradientQueue queue;
  const at::Tensor upstream = drawn({9, 2}, at::kFloat, 18);
  const RouterSettings settings{.experts_per_token = 2};
  torch::autograd::backward({route(x, router, {}, settings).weights}, {upstream});
  torch::autograd::backward({route(x, later, {}, settings, {}, &queue).weights}, {upstream});
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_EQ(later.gradient.abs().max().item<double>(), 0);
  queue.run();
  EXPECT_GT(router.gradient.abs().max().item<double>(), 0);
  EXPECT_TRUE(later.gradient.equal(router.gradient));
}

TEST(Router, HasTheSameBitsOnAnyThreads) {
  const auto results = [](int threads) {
    at::set_num_threads(threads);
    const at::Tensor x = drawn({900, 24}, at::kBFloat16, 19).set_requires_grad(true);
    const Weight router = router_weight(32, 24, at::kFloat, 20);
    const RouterLosses losses{.sequences = 3, .balance_scale = 0.1, .z_scale = 0.1};
    const Routing routing = route(x, router, {}, {.experts_per_token = 4, .normalised = true}, losses);
    torch::autograd::backward({routing.weights}, {drawn({900, 4}, at::kFloat, 21)});
    at::set_num_threads(1);
    return std::vector<at::Tensor>{
        routing.choice.experts, routing.weights.detach(), routing.balance_loss, routing.z_loss, x.grad(),
        router.gradient};
  };
  const auto alone = results(1);
  // Without our products, the gradients of x and of the router are sums of torch, whose bits depend on threads.
  const bool ours = own_products(at::zeros({1, 1}), Products::own);
  const size_t compared = ours ? alone.size() : alone.size() - 2;
  for (const int threads : {2, 3}) {
    const auto several = results(threads);
    for (size_t i = 0; i < compared; ++i) EXPECT_TRUE(several[i].equal(alone[i])) << i << " " << threads;
  }
}

}  // namespace
}  // namespace terrace::ops
