// Checks losses from exponentials against double precision, each row by itself, and rows beyond the range.
#include "terrace/ops/loss/exponential_loss.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "terrace/ops/cut.h"
#include "terrace/ops/loss/cut_cross_entropy.h"
#include "terrace/ops/products/products.h"
#include "tests/ops/own_products.h"

namespace terrace::ops {
namespace {

constexpr double loss_scale = 0.25;

struct LossProblem {
  at::Tensor hidden, targets;
  Weight weight;
  int64_t vocabulary;

  // `vocabulary` columns count of the weight's `padded`; one token in seven has no target.
  LossProblem(at::ScalarType type, int64_t tokens, int64_t width, int64_t vocabulary, int64_t padded)
      : vocabulary(vocabulary) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(11);
    hidden = at::randn({tokens, width}, generator, at::TensorOptions()).to(type);
    weight.value = at::randn({padded, width}, generator, at::TensorOptions()).div(std::sqrt(width) / 3).to(type);
    weight.products.forward = Products::own;
    targets = at::randint(0, vocabulary, {tokens}, generator, at::TensorOptions().dtype(at::kLong));
    for (int64_t token = 3; token < tokens; token += 7) targets[token] = -1;
  }
};

struct Losses {
  at::Tensor losses, gradient;  // [N] and [N, V] in double
};

Losses found_losses(const LossProblem& problem, double gradient_scale = loss_scale) {
  const int64_t tokens = problem.hidden.size(0);
  Losses found{at::empty({tokens}, at::kDouble),
               at::full({tokens, problem.weight.value.size(0)}, std::nan(""), problem.hidden.options())};
  const LossRows rows{problem.hidden, problem.targets, problem.weight, problem.vocabulary, gradient_scale};
  const at::Tensor factors = exponential_losses(rows, found.gradient, found.losses);
  EXPECT_EQ(factors.defined(), gradient_scale != 0);
  if (factors.defined()) found.gradient = found.gradient.to(at::kDouble).mul(factors.unsqueeze(1));
  return found;
}

struct ExactLosses : Losses {
  at::Tensor at_target;  // [N, V]: 1 at the targets, else 0
  double largest = 0;    // of the absolute values of the logits
};

ExactLosses exact_losses(const LossProblem& problem) {
  const at::Tensor all = problem.hidden.to(at::kDouble).mm(problem.weight.value.to(at::kDouble).t());
  const at::Tensor logits = all.narrow(1, 0, problem.vocabulary);
  const at::Tensor probabilities = at::log_softmax(logits, 1), counts = problem.targets.ge(0).to(at::kDouble);
  const at::Tensor place = problem.targets.clamp_min(0).unsqueeze(1);
  ExactLosses exact;
  exact.losses = probabilities.gather(1, place).squeeze(1).neg().mul(counts);
  exact.at_target = at::zeros_like(all).scatter(1, place, 1).mul(counts.unsqueeze(1));
  exact.gradient = at::zeros_like(all);
  exact.gradient.narrow(1, 0, problem.vocabulary).copy_(probabilities.exp());
  exact.gradient.mul_(counts.unsqueeze(1)).sub_(exact.at_target).mul_(loss_scale);
  exact.largest = logits.abs().max().item<double>();
  return exact;
}

class ExponentialLoss : public testing::OwnProductsOfType {
 protected:
  // An error of the logits in fp32, which are sums of up to 32 products, is one of the losses and a relative one of the
  // probabilities.
  static void expect_near(const Losses& found, const ExactLosses& exact) {
    const double of_logits = 4e-6 + 1e-6 * exact.largest, rounding = GetParam() == at::kFloat ? 0 : 4e-3;
    EXPECT_LE(found.losses.sub(exact.losses).abs().max().item<double>(), of_logits);
    const at::Tensor bound = exact.gradient.abs().mul(rounding + of_logits);
    bound.add_(exact.at_target, loss_scale * of_logits).add_(1e-30);
    EXPECT_LE(found.gradient.sub(exact.gradient).abs().div(bound).max().item<double>(), 1);
  }
};

TEST_P(ExponentialLoss, NearThatOfDoublePrecision) {
  for (const int64_t vocabulary : {1, 7, 64, 65, 500, 701}) {
    for (const int64_t padding : {0, 3, 70}) {
      SCOPED_TRACE(::testing::Message() << vocabulary << " and " << padding);
      const LossProblem problem(GetParam(), 40, 24, vocabulary, vocabulary + padding);
      expect_near(found_losses(problem), exact_losses(problem));
    }
  }
}

TEST_P(ExponentialLoss, SameBitsIfNoGradientIsComputed) {
  const LossProblem problem(GetParam(), 40, 24, 300, 300);
  EXPECT_TRUE(found_losses(problem, 0).losses.equal(found_losses(problem).losses));
}

// Logits of a trained model can be far from 0, and a few can be far from all others.
TEST_P(ExponentialLoss, HoldsWhereverLogitsAre) {
  for (const double far : {-1e4, -200.0, -60.0, 20.0, 60.0, 200.0, 1e4}) {
    SCOPED_TRACE(far);
    LossProblem problem(GetParam(), 30, 32, 400, 400);
    problem.hidden.select(1, 0).fill_(1);
    problem.weight.value.select(1, 0).zero_();
    // All logits are far from 0; then one, beyond the first; then all but it, so that it is far from the others.
    problem.weight.value.select(1, 0).fill_(far);
    expect_near(found_losses(problem), exact_losses(problem));
    problem.weight.value.select(1, 0).zero_();
    problem.weight.value.select(0, 350).select(0, 0).fill_(far);
    expect_near(found_losses(problem), exact_losses(problem));
    problem.targets.fill_(350);
    expect_near(found_losses(problem), exact_losses(problem));
  }
}

// A chunk's rows and the number of threads thereby change no bit, even where some rows are computed again.
TEST_P(ExponentialLoss, ComputesEachRowByItself) {
  LossProblem problem(GetParam(), 150, 32, 400, 410);
  problem.hidden.narrow(0, 20, 100).mul_(20);
  problem.weight.value.narrow(0, 0, 64).mul_(0.1);
  const Losses whole = found_losses(problem);
  at::set_num_threads(2);
  const Losses by_two = found_losses(problem);
  at::set_num_threads(1);
  EXPECT_TRUE(by_two.losses.equal(whole.losses));
  EXPECT_TRUE(by_two.gradient.equal(whole.gradient));
  for (int64_t row = 0; row < 150; ++row) {
    LossProblem one = problem;
    one.hidden = problem.hidden.narrow(0, row, 1);
    one.targets = problem.targets.narrow(0, row, 1);
    const Losses found = found_losses(one);
    EXPECT_TRUE(found.losses.equal(whole.losses.narrow(0, row, 1))) << row;
    EXPECT_TRUE(found.gradient.equal(whole.gradient.narrow(0, row, 1))) << row;
  }
}

TEST_P(ExponentialLoss, BadHiddenStateGivesANaNInItsRowAlone) {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    LossProblem problem(GetParam(), 9, 8, 100, 100);
    problem.hidden[4][2] = bad;
    const Losses found = found_losses(problem);
    EXPECT_TRUE(std::isnan(found.losses[4].item<double>()));
    EXPECT_TRUE(found.losses.narrow(0, 0, 4).isfinite().all().item<bool>());
    EXPECT_TRUE(found.gradient.narrow(0, 5, 4).isfinite().all().item<bool>());
  }
}

// Ranks that are threads and gather through one buffer.
struct GatheredRanks {
  explicit GatheredRanks(int64_t size) : own(static_cast<size_t>(size)), all_are_there(size) {}
  std::vector<at::Tensor> own;
  std::barrier<> all_are_there;
};

class ThreadRank : public Ranks {
 public:
  ThreadRank(GatheredRanks& ranks, int64_t member) : ranks_(ranks), member_(member) {}
  int64_t size() const override { return static_cast<int64_t>(ranks_.own.size()); }
  int64_t member() const override { return member_; }
  std::unique_ptr<Pending> sum(const at::Tensor&, const char* what) override { return unexpected(what); }
  std::unique_ptr<Pending> sum_scatter(const at::Tensor&, const at::Tensor&, const char* what) override {
    return unexpected(what);
  }
  std::unique_ptr<Pending> gather(const at::Tensor& own, const at::Tensor& whole, const char*) override {
    ranks_.own[static_cast<size_t>(member_)] = own;
    ranks_.all_are_there.arrive_and_wait();
    for (int64_t member = 0; member < size(); ++member) {
      whole.select(0, member).copy_(ranks_.own[static_cast<size_t>(member)]);
    }
    ranks_.all_are_there.arrive_and_wait();
    return std::make_unique<Done>();
  }

 private:
  struct Done : Pending {
    void wait() override {}
  };
  static std::unique_ptr<Pending> unexpected(const char* what) {
    ADD_FAILURE() << "a loss needs no sum: " << what;
    return std::make_unique<Done>();
  }
  GatheredRanks& ranks_;
  int64_t member_;
};

// The losses of every rank, whose weight is its part of the problem's, and the gradients side by side.
Losses losses_of_ranks(const LossProblem& problem, int64_t num_ranks) {
  GatheredRanks ranks(num_ranks);
  std::vector<Losses> found(static_cast<size_t>(num_ranks));
  const int64_t tokens = problem.hidden.size(0), columns = problem.weight.value.size(0) / num_ranks;
  const bool is_exponential = has_exponential_losses(problem.hidden, problem.weight);
  std::vector<std::jthread> threads;
  for (int64_t member = 0; member < num_ranks; ++member) {
    threads.emplace_back([&, member] {
      ThreadRank rank(ranks, member);
      const Cut cut{.ranks = &rank, .dim = 0};
      Weight weight = problem.weight;
      weight.value = problem.weight.value.narrow(0, member * columns, columns).contiguous();
      weight.cut = num_ranks > 1 ? &cut : nullptr;
      Losses& own = found[static_cast<size_t>(member)];
      own = {at::empty({tokens}, at::kDouble), at::full({tokens, columns}, std::nan(""), problem.hidden.options())};
      const LossRows rows{problem.hidden, problem.targets, weight, problem.vocabulary, loss_scale};
      if (is_exponential) {
        const at::Tensor factors = exponential_losses(rows, own.gradient, own.losses);
        own.gradient = own.gradient.to(at::kDouble).mul(factors.unsqueeze(1));
      } else {
        losses_of_logits(rows, own.gradient, own.losses);
        own.gradient = own.gradient.to(at::kDouble);
      }
    });
  }
  threads.clear();
  std::vector<at::Tensor> gradients;
  for (const Losses& own : found) {
    EXPECT_TRUE(own.losses.equal(found[0].losses));
    gradients.push_back(own.gradient);
  }
  return {found[0].losses, at::cat(gradients, 1)};
}

// The largest logits of the ranks are `spread` apart: the first rank's are around 0, the last one's around `spread`,
// and those of the ranks between them lie between. Targets are on every rank.
LossProblem spread_over_ranks(at::ScalarType type, int64_t num_ranks, double spread) {
  constexpr int64_t columns = 24;
  LossProblem problem(type, 40, 16, num_ranks * columns, num_ranks * columns);
  problem.hidden.select(1, 0).fill_(1);
  for (int64_t member = 0; member < num_ranks; ++member) {
    problem.weight.value.narrow(0, member * columns, columns)
        .select(1, 0)
        .fill_(spread * static_cast<double>(member) / static_cast<double>(std::max<int64_t>(1, num_ranks - 1)));
  }
  return problem;
}

TEST_P(ExponentialLoss, HoldsHoweverFarApartTheLogitsOfRanksAre) {
  for (const int64_t num_ranks : {1, 2, 4, 8}) {
    for (const double spread : {0.0, 10.0, 29.0, 31.0, 80.0, 87.0, 89.0, 100.0, 300.0, 1000.0}) {
      SCOPED_TRACE(::testing::Message() << num_ranks << " ranks, " << spread);
      const LossProblem problem = spread_over_ranks(GetParam(), num_ranks, spread);
      expect_near(losses_of_ranks(problem, num_ranks), exact_losses(problem));
    }
  }
}

// Types whose losses are computed from logits. Logits in fp16 are rounded, so only what is finite is compared.
TEST(LossesOfLogits, FiniteHoweverFarApartTheLogitsOfRanksAre) {
  for (const at::ScalarType type : {at::kHalf, at::kDouble}) {
    for (const int64_t num_ranks : {2, 4, 8}) {
      for (const double spread : {0.0, 31.0, 89.0, 1000.0}) {
        SCOPED_TRACE(::testing::Message() << c10::toString(type) << ", " << num_ranks << " ranks, " << spread);
        const LossProblem problem = spread_over_ranks(type, num_ranks, spread);
        const Losses found = losses_of_ranks(problem, num_ranks);
        const ExactLosses exact = exact_losses(problem);
        const double bound = (type == at::kHalf ? 2e-3 : 1e-13) * std::max(1.0, exact.largest);
        EXPECT_LE(found.losses.sub(exact.losses).abs().max().item<double>(), bound);
        EXPECT_TRUE(found.gradient.isfinite().all().item<bool>());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ExponentialLoss, ::testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& type) { return std::string(c10::toString(type.param)); });

}  // namespace
}  // namespace terrace::ops
