// Checks the vocabulary loss: padding, tokens that are not counted, memory, and errors.
#include "terrace/ops/loss/vocabulary_loss.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "terrace/base/error.h"
#include "terrace/memory/meter.h"

namespace terrace::ops {
namespace {

struct Problem {
  at::Tensor hidden, targets;
  Weight weight;

  Problem(int64_t tokens, int64_t width, int64_t vocabulary, int64_t padded) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(8);
    hidden = at::randn({tokens, width}, generator, at::TensorOptions()).set_requires_grad(true);
    weight.value = at::randn({padded, width}, generator, at::TensorOptions()).set_requires_grad(true);
    weight.gradient = at::zeros({padded, width});
    targets = at::randint(0, vocabulary, {tokens}, generator, at::TensorOptions().dtype(at::kLong));
  }
};

TEST(VocabularyLoss, EqualLogitsGiveTheLogarithmOfTheVocabulary) {
  Problem problem(6, 4, 10, 16);
  const at::Tensor loss = vocabulary_loss(at::zeros({6, 4}), problem.weight, problem.targets, {.vocabulary = 10});
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  EXPECT_NEAR(loss.item<double>(), 6 * std::log(10.0), 1e-5);
}

TEST(VocabularyLoss, IgnoresPadding) {
  Problem plain(9, 4, 10, 16), loud(9, 4, 10, 16);
  {
    at::NoGradGuard no_grad;
    loud.weight.value.narrow(0, 10, 6).fill_(1e3);
  }
  for (Problem* problem : {&plain, &loud}) {
    const at::Tensor loss = vocabulary_loss(problem->hidden, problem->weight, problem->targets, {.vocabulary = 10});
    torch::autograd::backward({loss}, {});
  }
  EXPECT_TRUE(loud.hidden.grad().equal(plain.hidden.grad()));
  EXPECT_TRUE(loud.weight.gradient.equal(plain.weight.gradient));
  EXPECT_EQ(loud.weight.gradient.narrow(0, 10, 6).abs().max().item<double>(), 0.0);
}

TEST(VocabularyLoss, IgnoresTokensWithoutATarget) {
  Problem problem(5, 4, 10, 10);
  problem.targets.fill_(-1);
  const at::Tensor loss = vocabulary_loss(problem.hidden, problem.weight, problem.targets, {.vocabulary = 10});
  torch::autograd::backward({loss}, {});
  EXPECT_EQ(loss.item<double>(), 0.0);
  EXPECT_EQ(problem.hidden.grad().abs().max().item<double>(), 0.0);
  EXPECT_EQ(problem.weight.gradient.abs().max().item<double>(), 0.0);
}

TEST(VocabularyLoss, NaNForANaNInTheHiddenState) {
  Problem problem(3, 4, 40, 40);
  {
    at::NoGradGuard no_grad;
    problem.hidden[1][2] = std::nan("");
  }
  const at::Tensor loss = vocabulary_loss(problem.hidden, problem.weight, problem.targets, {.vocabulary = 40});
  EXPECT_TRUE(std::isnan(loss.item<double>()));
}

TEST(VocabularyLoss, TouchesNoGradientInEvaluation) {
  Problem problem(5, 4, 10, 10);
  at::NoGradGuard no_grad;
  vocabulary_loss(problem.hidden, problem.weight, problem.targets, {.vocabulary = 10});
  EXPECT_EQ(problem.weight.gradient.abs().max().item<double>(), 0.0);
}

TEST(VocabularyLoss, RefusesATargetOutsideTheVocabulary) {
  Problem problem(5, 4, 10, 16);
  for (int64_t target : {10, -2}) {
    problem.targets[3] = target;
    try {
      vocabulary_loss(problem.hidden, problem.weight, problem.targets, {.vocabulary = 10});
      FAIL() << target;
    } catch (const UserError& error) {
      EXPECT_EQ(std::string(error.what()), "target " + std::to_string(target) + " is outside -1 .. 9 of this model");
    }
  }
}

TEST(VocabularyLoss, NeverHoldsTheLogitsOfAllTokens) {
  const int64_t tokens = 8000, width = 8, vocabulary = 3000;
  Problem problem(tokens, width, vocabulary, vocabulary);
  const auto meter = std::make_shared<memory::Meter>();
  const int64_t chunk_bytes = int64_t{7} << 20;  // more than the least chunk of 512 rows
  {
    c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, meter);
    const at::Tensor loss = vocabulary_loss(problem.hidden, problem.weight, problem.targets,
                                            {.vocabulary = vocabulary, .chunk_bytes = chunk_bytes});
    torch::autograd::backward({loss}, {});
  }
  // The chunk and its packed copy, the gradient of the hidden states twice (kept for backward, and in the leaf), the
  // losses, and 256 KiB for small tensors.
  EXPECT_GT(meter->peak, chunk_bytes / 2);
  EXPECT_LT(meter->peak, 2 * chunk_bytes + 2 * tokens * width * 4 + tokens * 8 + 262144);
  EXPECT_GT(tokens * vocabulary * 4, 5 * meter->peak);
}

TEST(VocabularyLossDeathTest, LossThatIsNotTheRootOfBackward) {
  Problem problem(5, 4, 10, 10);
  const at::Tensor loss = vocabulary_loss(problem.hidden, problem.weight, problem.targets, {.vocabulary = 10});
  EXPECT_DEATH(torch::autograd::backward({loss.mul(2)}, {}), "root of backward");
}

}  // namespace
}  // namespace terrace::ops
