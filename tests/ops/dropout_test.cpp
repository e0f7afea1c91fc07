// Checks that the dropout mask is a function of seed, site, step, sample, position and feature only.
#include "terrace/ops/elements/dropout.h"

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

namespace terrace::ops {
namespace {

DropoutSite site_of(const at::Tensor& samples, double rate = 0.1, uint64_t seed = 5, int64_t step = 7) {
  return {rate, seed, step, samples};
}

at::Tensor samples_from(int64_t first, int64_t count) { return at::arange(first, first + count, at::kLong); }

at::Tensor mask(const at::Tensor& samples, at::IntArrayRef shape, std::string_view name = "a", double rate = 0.1,
                uint64_t seed = 5, int64_t step = 7) {
  return dropout(at::ones(shape), site_of(samples, rate, seed, step), name);
}

TEST(Dropout, EqualsItsDefinitionElementByElement) {
  const double rate = 0.3;
  const auto threshold = static_cast<uint32_t>(std::lround(rate * 65536));
  const at::Tensor samples = at::full({1}, (int64_t{3} << 32) + 11, at::kLong);
  for (int64_t columns : {1, 127, 128, 300}) {
    const at::Tensor drawn = mask(samples, {1, 2, 3, columns}, "site", rate, 9, 41);
    const PhiloxBlock block = philox_at(stream_key(9, "site"), 41, 0);
    const PhiloxKey key = {block[0], block[1]};
    for (uint32_t plane = 0; plane < 2; ++plane) {
      for (uint32_t t = 0; t < 3; ++t) {
        for (int64_t d = 0; d < columns; ++d) {
          const int64_t half = d % 128 / 16, counter = d / 128 * 16 + d % 16;
          const PhiloxBlock words = philox(key, {static_cast<uint32_t>(counter), t, 11, 3 | plane << 16});
          const bool kept = ((words[half / 2] >> (16 * (half % 2))) & 0xFFFF) >= threshold;
          ASSERT_EQ(drawn[0][plane][t][d].item<float>(), kept ? 65536.0f / (65536 - threshold) : 0.0f) << d;
        }
      }
    }
  }
}

TEST(Dropout, DropsAtItsRateAndKeepsTheMean) {
  const int64_t count = 4 * 100 * 777;
  for (double rate : {0.01, 0.1, 0.5, 0.9}) {
    const at::Tensor drawn = mask(samples_from(0, 4), {4, 100, 777}, "a", rate);
    const double dropped = drawn.eq(0).to(at::kDouble).mean().item<double>();
    // Six standard deviations of a binomial share: a correct generator fails for one of 5e8 seeds, and the seed is
    // fixed.
    EXPECT_NEAR(dropped, rate, 6 * std::sqrt(rate * (1 - rate) / count)) << rate;
    EXPECT_NEAR(drawn.to(at::kDouble).mean().item<double>(), 1.0, 6 * std::sqrt(rate / (1 - rate) / count)) << rate;
  }
}

TEST(Dropout, SameMaskInAnyMicroBatch) {
  const at::Tensor whole = mask(samples_from(10, 5), {5, 9, 130});
  const at::Tensor first = mask(samples_from(10, 2), {2, 9, 130}), second = mask(samples_from(12, 3), {3, 9, 130});
  EXPECT_TRUE(whole.equal(at::cat({first, second})));
}

TEST(Dropout, SameMaskOnAnyThreads) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor alone = mask(samples_from(0, 8), {8, 64, 257});
  at::set_num_threads(3);
  const at::Tensor together = mask(samples_from(0, 8), {8, 64, 257});
  at::set_num_threads(threads);
  EXPECT_TRUE(alone.equal(together));
}

TEST(Dropout, DiffersBetweenSitesStepsSeedsSamplesAndPositions) {
  const at::Tensor one = samples_from(0, 1);
  const at::Tensor drawn = mask(one, {1, 2, 512}, "a", 0.5);
  // Independent masks agree in 512 of 1024 places, with a standard deviation of 16; six of them are allowed.
  const auto agreement = [](const at::Tensor& a, const at::Tensor& b) {
    return a.eq(b).to(at::kDouble).mean().item<double>();
  };
  EXPECT_NEAR(agreement(drawn, mask(one, {1, 2, 512}, "b", 0.5)), 0.5, 0.1);
  EXPECT_NEAR(agreement(drawn, mask(one, {1, 2, 512}, "a", 0.5, 6)), 0.5, 0.1);
  EXPECT_NEAR(agreement(drawn, mask(one, {1, 2, 512}, "a", 0.5, 5, 8)), 0.5, 0.1);
  EXPECT_NEAR(agreement(drawn, mask(samples_from(1, 1), {1, 2, 512}, "a", 0.5)), 0.5, 0.1);
  EXPECT_NEAR(agreement(drawn.select(1, 0), drawn.select(1, 1)), 0.5, 0.14);
  EXPECT_TRUE(drawn.equal(mask(one, {1, 2, 512}, "a", 0.5)));
}

TEST(Dropout, BackwardDrawsTheSameMask) {
  for (bool with_residual : {false, true}) {
    const at::Tensor x = at::ones({2, 5, 67}).set_requires_grad(true);
    const at::Tensor residual = at::full({2, 5, 67}, 10.0).set_requires_grad(true);
    const at::Tensor y = dropout_add(with_residual ? residual : at::Tensor(), x, site_of(samples_from(3, 2), 0.4), "a");
    torch::autograd::backward({y}, {at::ones_like(y)});
    // x is 1, so output - residual is the factor of the element, which is its gradient; 10 + factor is rounded by at
    // most 2^-20.
    const at::Tensor share = with_residual ? y.detach().sub(10.0) : y.detach();
    EXPECT_TRUE(x.grad().allclose(share, 0, 0x1p-20));
    EXPECT_GT(x.grad().eq(0).sum().item<int64_t>(), 0);
    if (with_residual) {
      EXPECT_TRUE(residual.grad().equal(at::ones_like(residual)));
    }
  }
}

TEST(Dropout, SameMaskForColumnsOfHeadsAsForHeads) {
  const at::Tensor samples = samples_from(4, 2), x = at::ones({2, 5, 3 * 130});
  DropoutSite site = site_of(samples, 0.4);
  site.first_head = 6;
  drop_in_heads(x, 3, draw_of(site, "a"));
  const at::Tensor expected = dropout(at::ones({2, 3, 5, 130}), site, "a");
  EXPECT_TRUE(x.equal(expected.transpose(1, 2).flatten(2)));
}

TEST(Dropout, RateZeroGivesTheSum) {
  const at::Tensor x = at::full({1, 2, 3}, 0.25), residual = at::ones({1, 2, 3});
  EXPECT_TRUE(dropout_add(residual, x, site_of({}, 0.0), "a").equal(at::full({1, 2, 3}, 1.25)));
  EXPECT_TRUE(dropout_add({}, x, site_of({}, 0.0), "a").equal(x));
}

}  // namespace
}  // namespace terrace::ops
