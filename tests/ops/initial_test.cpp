// Checks that initial values are normal and a function of key and global index, for any threads and any range.
#include "terrace/ops/initial.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace terrace::ops {
namespace {

const PhiloxKey key = stream_key(17, "blocks.0.ffn.first.weight");

at::Tensor filled(at::IntArrayRef shape, at::ScalarType type = at::kFloat, int64_t first = 0) {
  at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(type));
  fill_normal(tensor, key, 0.02, first);
  return tensor;
}

TEST(InitialValues, EqualTheirDefinition) {
  for (int64_t size : {1, 3, 4, 63, 64, 65, 1001}) {
    const at::Tensor values = filled({size});
    for (int64_t n = 0; n < size; ++n) {
      const double p = (philox_at(key, static_cast<uint64_t>(n / 4), 0)[n % 4] + 0.5) / 4294967296.0;
      ASSERT_EQ(values[n].item<float>(), static_cast<float>(0.02 * normal_quantile(p))) << n;
    }
  }
}

TEST(InitialValues, AreNormal) {
  const int64_t count = 200000;
  const at::Tensor z = filled({count}, at::kDouble).div(0.02);
  const double root = std::sqrt(static_cast<double>(count));
  // Moments of the standard normal; the standard deviations of z, z^2, z^3, z^4 are 1, sqrt 2, sqrt 15, sqrt 96.
  EXPECT_NEAR(z.mean().item<double>(), 0.0, 5.0 / root);
  EXPECT_NEAR(z.pow(2).mean().item<double>(), 1.0, 5.0 * std::sqrt(2.0) / root);
  EXPECT_NEAR(z.pow(3).mean().item<double>(), 0.0, 5.0 * std::sqrt(15.0) / root);
  EXPECT_NEAR(z.pow(4).mean().item<double>(), 3.0, 5.0 * std::sqrt(96.0) / root);
}

TEST(InitialValues, DoNotDependOnTheThreads) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor alone = filled({300007});
  at::set_num_threads(3);
  const at::Tensor together = filled({300007});
  at::set_num_threads(threads);
  EXPECT_TRUE(alone.equal(together));
}

TEST(InitialValues, AreThoseOfTheWholeInEveryRange) {
  const at::Tensor whole = filled({385});
  for (int64_t first : {1, 3, 64, 100, 384}) {
    const int64_t size = std::min<int64_t>(385 - first, 130);
    EXPECT_TRUE(filled({size}, at::kFloat, first).equal(whole.narrow(0, first, size))) << "from " << first;
  }
}

TEST(InitialValues, AreRoundedOnceToTheirType) {
  EXPECT_TRUE(filled({999}, at::kBFloat16).equal(filled({999}).to(at::kBFloat16)));
  EXPECT_TRUE(filled({999}).equal(filled({999}, at::kDouble).to(at::kFloat)));
}

}  // namespace
}  // namespace terrace::ops
