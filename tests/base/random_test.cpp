// Philox against the published vectors, the normal quantile against known values, the permutation as a bijection.
#include "terrace/base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace terrace {
namespace {

// Known-answer vectors of the authors' Random123 library for philox4x32 with 10 rounds.
TEST(Philox, EqualsThePublishedVectors) {
  EXPECT_EQ(philox({0, 0}, {0, 0, 0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(StreamKey, DependsOnSeedAndName) {
  EXPECT_NE(stream_key(1, "a"), stream_key(2, "a"));
  EXPECT_NE(stream_key(1, "a"), stream_key(1, "b"));
  EXPECT_EQ(stream_key(7, "blocks.0.attention"), stream_key(7, "blocks.0.attention"));
}

TEST(NormalQuantile, InvertsTheDistributionFunction) {
  EXPECT_EQ(normal_quantile(0.5), 0.0);
  EXPECT_NEAR(normal_quantile(0.975), 1.959963984540054, 1e-14);
  // Independent: the C library's erfc. Its error and ours, both about an ulp, are divided by the density.
  for (double z : {-8.0, -5.5, -3.0, -1.0, -0.1, 0.3, 1.7, 2.5, 4.0}) {
    const double p = 0.5 * std::erfc(-z / std::sqrt(2.0));
    const double density = std::exp(-z * z / 2) / std::sqrt(2 * M_PI);
    EXPECT_NEAR(normal_quantile(p), z, 8e-16 * std::max(p, z > 0 ? 1.0 : p) / density + 8e-15) << z;
  }
}

TEST(Permute, BijectionAtEverySize) {
  for (uint64_t size : {1, 2, 3, 5, 64, 65, 1000}) {
    std::vector<bool> seen(size);
    for (uint64_t i = 0; i < size; ++i) {
      const uint64_t image = permute({11, 13}, size, i);
      ASSERT_LT(image, size);
      ASSERT_FALSE(seen[image]) << "size " << size << " index " << i;
      seen[image] = true;
    }
  }
}

TEST(Permute, ScattersNeighbours) {
  // The mean distance of the images of neighbours in a random order of n is n/3; a shift or an identity is far off.
  const uint64_t size = 10000;
  double distance = 0;
  for (uint64_t i = 0; i + 1 < size; ++i) {
    distance +=
        std::abs(static_cast<double>(permute({3, 4}, size, i)) - static_cast<double>(permute({3, 4}, size, i + 1)));
  }
  EXPECT_NEAR(distance / (size - 1), size / 3.0, size / 50.0);
}

}  // namespace
}  // namespace terrace
