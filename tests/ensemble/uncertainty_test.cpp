// Judges distributions whose calibration is known.
#include "terrace/ensemble/uncertainty.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace terrace::ensemble {
namespace {

// Labels around 0 whose true deviation is that of the prediction times `factor`.
struct Drawn {
  Distribution predicted;
  std::vector<double> labels;

  explicit Drawn(double factor, size_t count = 20000) {
    std::mt19937 generator(7);
    std::normal_distribution<double> normal;
    for (size_t i = 0; i < count; ++i) {
      const double deviation = std::exp(normal(generator));
      predicted.mean.push_back(normal(generator));
      predicted.deviation.push_back(deviation);
      labels.push_back(predicted.mean.back() + factor * deviation * normal(generator));
    }
  }
};

TEST(Combined, IsTheMeanWithTheSpreadOfFewMembers) {
  const Distribution two = combined({{1, 4}, {3, 4}}, {});
  EXPECT_EQ(two.mean, (std::vector<double>{2, 4}));
  EXPECT_DOUBLE_EQ(two.deviation[0], std::sqrt(2 * 1.5));  // variance 2 of two members, times 1 + 1/2
  EXPECT_EQ(two.deviation[1], 0);
  const Distribution with_variances = combined({{1, 4}, {3, 4}}, {{1, 2}, {3, 7}});
  EXPECT_DOUBLE_EQ(with_variances.deviation[0], std::sqrt(3.0 + 2));
  EXPECT_DOUBLE_EQ(with_variances.deviation[1], std::sqrt(4.5));
  EXPECT_EQ(combined({{5}}, {}).deviation, std::vector<double>{0});
}

TEST(Calibration, OfTheRightDeviationsIsNearlyPerfect) {
  const Drawn drawn(1);
  const Calibration judged = calibration(drawn.predicted, drawn.labels);
  EXPECT_LT(judged.miscalibration_area, 0.01);
  EXPECT_LT(judged.ence, 0.03);
  // The mean of log(deviation) is 0, that of the squared error over the variance is 1.
  EXPECT_NEAR(judged.nll, (std::log(2 * M_PI) + 1) / 2, 0.03);
  EXPECT_GT(judged.spearman, 0.5);
}

TEST(Calibration, OfDeviationsThatAreTooSmallIsMendedByTheFittedScale) {
  const Drawn drawn(2);
  const Calibration before = calibration(drawn.predicted, drawn.labels);
  EXPECT_NEAR(before.ence, 1, 0.05) << "an error is twice its deviation";
  const double scale = fitted_scale(drawn.predicted, drawn.labels);
  EXPECT_NEAR(scale, 2, 0.05);
  const Calibration after = calibration(scaled(drawn.predicted, scale), drawn.labels);
  EXPECT_GT(before.miscalibration_area, 0.15);
  EXPECT_LT(after.miscalibration_area, 0.01);
  EXPECT_LT(after.nll, before.nll);
  EXPECT_NEAR(after.sharpness, scale * before.sharpness, 1e-12);
  EXPECT_EQ(after.spearman, before.spearman);
}

// One label within one deviation: in all intervals from 68.3% on.
TEST(Calibration, AreaOfOneLabelIsThatOfTwoTriangles) {
  const Distribution one{.mean = {0}, .deviation = {1}};
  const std::vector<double> labels = {1};
  const double inside = std::erf(1 / std::sqrt(2.0));
  // Below `inside` nothing is observed and the area is p, above it is 1 - p; the step lies between two of 99 intervals.
  const double expected = inside * inside / 2 + (1 - inside) * (1 - inside) / 2;
  EXPECT_NEAR(calibration(one, labels).miscalibration_area, expected, 0.5 / 99);
  const auto shares = coverage(one, labels, 5);
  EXPECT_EQ(shares, (std::vector<std::pair<double, double>>{{0, 0}, {0.25, 0}, {0.5, 0}, {0.75, 1}, {1, 1}}));
}

// Deviations and root mean square errors grow together: by deviation (1, 1), (2, 2) and so on to (11, 11), two values
// of which share a bin.
TEST(Calibration, BinsHaveTheRootsOfMeanSquares) {
  Distribution predicted;
  std::vector<double> labels;
  for (int i = 11; i >= 1; --i) {
    predicted.mean.push_back(0);
    predicted.deviation.push_back(i);
    labels.push_back(2 * i);
  }
  const std::vector<SpreadBin> bins = spread_bins(predicted, labels);
  ASSERT_EQ(bins.size(), 10u);
  EXPECT_EQ(bins.front().count, 1);
  EXPECT_EQ(bins.front().deviation, 1);
  EXPECT_EQ(bins.front().rmse, 2);
  EXPECT_EQ(bins.back().count, 2);
  EXPECT_DOUBLE_EQ(bins.back().deviation, std::sqrt((10.0 * 10 + 11 * 11) / 2));
  EXPECT_DOUBLE_EQ(bins.back().rmse, 2 * bins.back().deviation);
  EXPECT_DOUBLE_EQ(calibration(predicted, labels).ence, 1);
  EXPECT_TRUE(spread_bins({{1}, {0}}, std::vector<double>{1}).empty());
}

TEST(Calibration, GivesTiesTheirMeanRank) {
  const Distribution predicted{.mean = {0, 0, 0, 0}, .deviation = {1, 1, 2, 3}};
  const std::vector<double> labels = {1, 2, 2, 4};
  // Ranks of errors 0, 1.5, 1.5, 3 and of deviations 0.5, 0.5, 2, 3.
  EXPECT_DOUBLE_EQ(calibration(predicted, labels).spearman, 3.75 / 4.5);
}

TEST(Calibration, SaysNothingOfPredictionsWithoutDeviation) {
  const Distribution predicted{.mean = {1, 2}, .deviation = {0, 0}};
  const std::vector<double> labels = {2, 2};
  const Json judged = json_of(calibration(predicted, labels));
  EXPECT_EQ(judged.at("mae"), 0.5);
  EXPECT_EQ(judged.at("count"), 2);
  EXPECT_TRUE(judged.at("miscalibration_area").is_null());
  EXPECT_TRUE(judged.at("spearman").is_null());
  EXPECT_EQ(fitted_scale(predicted, labels), 1);
  EXPECT_TRUE(json_of(calibration({}, {})).at("mae").is_null());
}

}  // namespace
}  // namespace terrace::ensemble
