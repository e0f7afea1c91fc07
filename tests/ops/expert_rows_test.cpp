// Checks the order of rows by hand, and gathering and summing against loops in double precision.
#include "terrace/ops/experts/expert_rows.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <numeric>
#include <vector>

#include "tests/pytorch/judge.h"

namespace terrace::ops {
namespace {

at::Tensor normal_rows(at::IntArrayRef shape, at::ScalarType type, uint64_t seed) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::TensorOptions()).to(type);
}

// Different experts for each token.
at::Tensor drawn_choices(int64_t tokens, int64_t experts, int64_t slots, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const at::Tensor choices = at::empty({tokens, slots}, at::kInt);
  for (int64_t n = 0; n < tokens; ++n) {
    choices[n].copy_(at::randperm(experts, generator, at::TensorOptions().dtype(at::kInt)).narrow(0, 0, slots));
  }
  return choices;
}

TEST(ExpertRows, AreOrderedByExpertThenTokenThenSlot) {
  const at::Tensor choices = at::zeros({3, 2}, at::kInt);
  const int32_t numbers[] = {3, 0, 0, 3, 3, 1};
  std::copy(std::begin(numbers), std::end(numbers), choices.mutable_data_ptr<int32_t>());
  const ExpertRows rows = rows_of_choices(choices, 5);
  EXPECT_EQ(rows.offsets, (std::vector<int64_t>{0, 2, 3, 3, 6, 6}));
  const auto numbers_in = [](const at::Tensor& t) {
    return std::vector<int64_t>(t.const_data_ptr<int64_t>(), t.const_data_ptr<int64_t>() + t.numel());
  };
  EXPECT_EQ(numbers_in(rows.pairs), (std::vector<int64_t>{1, 2, 5, 0, 3, 4}));
  EXPECT_EQ(numbers_in(rows.places), (std::vector<int64_t>{3, 0, 1, 4, 5, 2}));
  EXPECT_EQ(rows.slots, 2);
}

struct RowsCase {
  int64_t tokens, experts, slots, width;
};

constexpr RowsCase rows_cases[] = {{1, 4, 1, 1}, {7, 5, 2, 17}, {33, 64, 8, 33}, {40, 6, 3, 130}};

TEST(ExpertRows, GatherAndSumEqualLoopsInDoublePrecision) {
  at::set_num_threads(2);
  for (const RowsCase& c : rows_cases) {
    for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(::testing::Message() << c.tokens << " tokens, " << c.slots << " slots, " << c10::toString(type));
      const at::ScalarType computing = type == at::kDouble ? at::kDouble : at::kFloat;
      const at::Tensor choices = drawn_choices(c.tokens, c.experts, c.slots, 3);
      const ExpertRows rows = rows_of_choices(choices, c.experts);
      const at::Tensor x = normal_rows({c.tokens, c.width}, type, 1).set_requires_grad(true);
      const at::Tensor weights = normal_rows({c.tokens, c.slots}, computing, 2).set_requires_grad(true);
      const at::Tensor dy = normal_rows({c.tokens, c.width}, type, 4);
      const at::Tensor copies = gather_rows(x, rows), values = copies.detach().mul(3).set_requires_grad(true);
      const at::Tensor sums = sum_rows(values, rows, weights), plain = sum_rows(values.detach(), rows);
      torch::autograd::backward({sums}, {dy});
      torch::autograd::backward({copies}, {values.detach()});
      const at::Tensor in_order = weights_of_rows(weights, rows).detach();
      // Rounded once; the slots of each sum are added in the computing type.
      const double unit = testing::unit_roundoff(type), of_sums = 10 * testing::unit_roundoff(computing);
      const auto near = [&](const at::Tensor& found, const at::Tensor& truth, const at::Tensor& size) {
        const at::Tensor bound = truth.abs().mul(1.01 * unit).add(size.mul(of_sums));
        EXPECT_LE(found.detach().to(at::kDouble).sub(truth).abs().sub(bound).max().item<double>(), 0);
      };
      const auto wide = [](const at::Tensor& t) { return t.detach().to(at::kDouble); };
      for (int64_t n = 0; n < c.tokens; ++n) {
        at::Tensor sum = at::zeros({c.width}, at::kDouble), weighted = sum.clone(), size = sum.clone();
        for (int64_t j = 0; j < c.slots; ++j) {
          const auto place = rows.places[n * c.slots + j].item<int64_t>();
          const auto expert = choices[n][j].item<int32_t>();
          EXPECT_GE(place, rows.offsets[static_cast<size_t>(expert)]);
          EXPECT_LT(place, rows.offsets[static_cast<size_t>(expert) + 1]);
          EXPECT_TRUE(copies[place].equal(x[n]));
          EXPECT_EQ(in_order[place].item<double>(), weights[n][j].item<double>());
          const at::Tensor value = wide(values[place]), weight = wide(weights[n][j]);
          sum += value, weighted += value.mul(weight), size += value.abs().mul(weight.abs().add(1));
          near(values.grad()[place], wide(dy[n]).mul(weight), at::zeros({c.width}, at::kDouble));
          const at::Tensor products = value.mul(wide(dy[n]));
          near(weights.grad()[n][j], products.sum(), products.abs().sum().mul(static_cast<double>(c.width)));
        }
        near(plain[n], sum, size);
        near(sums[n], weighted, size);
        near(x.grad()[n], sum, size);
      }
    }
  }
  at::set_num_threads(1);
}

TEST(ExpertRows, SumsHaveTheSameBitsOnAnyThreads) {
  const ExpertRows rows = rows_of_choices(drawn_choices(700, 9, 4, 5), 9);
  const auto compute = [&](int threads) {
    at::set_num_threads(threads);
    const at::Tensor values = normal_rows({2800, 67}, at::kBFloat16, 6).set_requires_grad(true);
    const at::Tensor weights = normal_rows({700, 4}, at::kFloat, 7).set_requires_grad(true);
    const at::Tensor sums = sum_rows(values, rows, weights);
    torch::autograd::backward({sums}, {normal_rows({700, 67}, at::kBFloat16, 8)});
    at::set_num_threads(1);
    return std::vector<at::Tensor>{sums.detach(), values.grad(), weights.grad()};
  };
  const auto alone = compute(1);
  for (const int threads : {2, 3}) {
    const auto several = compute(threads);
    for (size_t i = 0; i < alone.size(); ++i) EXPECT_TRUE(several[i].equal(alone[i])) << i << " " << threads;
  }
}

TEST(ExpertRows, WeightsOfRowsHaveTheirGradientsInTheOrderOfTokens) {
  const ExpertRows rows = rows_of_choices(drawn_choices(6, 5, 3, 9), 5);
  const at::Tensor weights = normal_rows({6, 3}, at::kFloat, 10).set_requires_grad(true);
  const at::Tensor factors = normal_rows({18}, at::kFloat, 11);
  torch::autograd::backward({weights_of_rows(weights, rows)}, {factors});
  for (int64_t pair = 0; pair < 18; ++pair) {
    EXPECT_EQ(weights.grad().view(-1)[pair].item<float>(), factors[rows.places[pair].item<int64_t>()].item<float>());
  }
}

TEST(ExpertRows, OfNoTokensAreEmpty) {
  const ExpertRows rows = rows_of_choices(at::empty({0, 2}, at::kInt), 3);
  EXPECT_EQ(rows.offsets, (std::vector<int64_t>{0, 0, 0, 0}));
  EXPECT_EQ(gather_rows(at::empty({0, 5}), rows).size(0), 0);
  EXPECT_EQ(sum_rows(at::empty({0, 5}), rows, at::empty({0, 2})).size(0), 0);
}

}  // namespace
}  // namespace terrace::ops
