// Matrices of interpolation between grids equal what is worked out by hand, across the edges of regions and of 0
// degrees.
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "terrace/data/fields/longitude_circle.h"
#include "terrace/models/vit/grid_interpolation.h"

namespace terrace::models::vit {
namespace {

using Rows = std::vector<std::vector<float>>;

void expect_rows(const at::Tensor& matrix, const Rows& expected) {
  ASSERT_EQ(matrix.size(0), std::ssize(expected));
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(matrix[static_cast<int64_t>(i)].allclose(at::tensor(expected[i]), 1e-6, 1e-6)) << "row " << i;
  }
}

TEST(GridInterpolation, IsLinearInLatitudeAndConstantBeyondTheOutermost) {
  expect_rows(interpolation_of_latitudes({-80, -60, -45, 0, 20, 70}, {-60, 0, 80}),
              {{1, 0, 0}, {1, 0, 0}, {0.75, 0.25, 0}, {0, 1, 0}, {0, 0.75, 0.25}, {0, 0.125, 0.875}});
  expect_rows(interpolation_of_latitudes({-5, 5}, {40}), {{1}, {1}});
}

TEST(GridInterpolation, GoesAroundTheGlobeWhereTheStoredLongitudesDo) {
  expect_rows(interpolation_of_longitudes({0, 30, 300, 359}, {0, 120, 240}),
              {{1, 0, 0}, {0.75, 0.25, 0}, {0.5, 0, 0.5}, {1 - 1.0F / 120, 0, 1.0F / 120}});
}

// 350, 0, 10 in the order of the data: 0, 10, 350. Beyond them the nearer end counts.
TEST(GridInterpolation, OfARegionAcrossZeroDegreesEndsAtItsEdges) {
  expect_rows(interpolation_of_longitudes({355, 5, 20, 180, 200, 340, 352}, {0, 10, 350}),
              {{0.5, 0, 0.5}, {0.5, 0.5, 0}, {0, 1, 0}, {0, 1, 0}, {0, 0, 1}, {0, 0, 1}, {0.2F, 0, 0.8F}});
}

TEST(GridInterpolation, PatchesLieInTheMiddleOfTheirPlaces) {
  EXPECT_EQ(patch_latitudes({-90, -80, -70, -60, -50}, 2), (std::vector<double>{-85, -65, -50}));
  EXPECT_EQ(patch_longitudes({0, 10, 20, 30}, 2), (std::vector<double>{5, 25}));
  EXPECT_EQ(patch_longitudes({2, 358}, 2), (std::vector<double>{0}));
}

TEST(LongitudeCircle, BeginsBehindTheLargestGap) {
  const data::LongitudeCircle globe = data::longitude_circle({0, 90, 180, 270});
  EXPECT_TRUE(globe.is_closed);
  EXPECT_EQ(globe.degrees.size(), 4u);
  const data::LongitudeCircle region = data::longitude_circle({0, 10, 340, 350});
  EXPECT_FALSE(region.is_closed);
  EXPECT_EQ(region.order, (std::vector<size_t>{2, 3, 0, 1}));
  EXPECT_EQ(region.degrees, (std::vector<double>{340, 350, 360, 370}));
  EXPECT_EQ(data::longitude_circle({35, 40}).degrees, (std::vector<double>{35, 40}));
  EXPECT_FALSE(data::longitude_circle({35, 40}).is_closed);
  EXPECT_TRUE(data::longitude_circle({-180, 0}).is_closed);
  EXPECT_TRUE(data::longitude_circle({7}).is_closed);
  EXPECT_TRUE(data::longitude_circle({0, 45, 90, 135, 180, 225, 270, 292.5, 315}).is_closed);
}

}  // namespace
}  // namespace terrace::models::vit
