// Compares figures of a stream with those of all its values together.
#include "terrace/ensemble/streamed_calibration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace terrace::ensemble {
namespace {

struct Values {
  Distribution predicted = {};
  std::vector<double> labels = {};
};

// Errors whose deviation is that of the prediction times `factor`, in any units.
Values drawn(double factor, double units, size_t count = 5000) {
  Values values;
  std::mt19937 generator(11);
  std::normal_distribution<double> normal;
  for (size_t i = 0; i < count; ++i) {
    const double deviation = units * std::exp(normal(generator));
    values.predicted.mean.push_back(units * normal(generator));
    values.predicted.deviation.push_back(deviation);
    values.labels.push_back(values.predicted.mean.back() + factor * deviation * normal(generator));
  }
  return values;
}

StreamedCalibration streamed(const Values& values, double scale = 1) {
  StreamedCalibration stream(scale);
  for (size_t i = 0; i < values.labels.size(); ++i) {
    stream.add(values.predicted.mean[i], values.predicted.deviation[i], values.labels[i], 1);
  }
  return stream;
}

TEST(StreamedCalibration, HasTheFiguresOfAllValuesTogether) {
  for (const double units : {1e-6, 1.0, 1e6}) {
    const Values values = drawn(2, units);
    for (const double scale : {1.0, 1.7}) {
      const Calibration expected = calibration(scaled(values.predicted, scale), values.labels);
      const Calibration found = streamed(values, scale).figures();
      EXPECT_EQ(found.count, expected.count);
      EXPECT_NEAR(found.mae / expected.mae, 1, 1e-12);
      EXPECT_NEAR(found.rmse / expected.rmse, 1, 1e-12);
      EXPECT_NEAR(found.miscalibration_area, expected.miscalibration_area, 1e-12);
      EXPECT_NEAR(found.sharpness / expected.sharpness, 1, 1e-12);
      EXPECT_NEAR(found.nll, expected.nll, 1e-10);
      // A bin has 500 values, of which about 9 share a class with those of the next bin.
      EXPECT_NEAR(found.ence, expected.ence, 0.01);
      // Ties of 9% take at most a share of a hundredth from a rank correlation.
      EXPECT_NEAR(found.spearman, expected.spearman, 0.01);
    }
  }
}

TEST(StreamedCalibration, FitsTheScaleOfAllValuesTogether) {
  const Values values = drawn(2, 1);
  EXPECT_NEAR(streamed(values).fitted_scale() / fitted_scale(values.predicted, values.labels), 1, 0.01);
  EXPECT_EQ(StreamedCalibration().fitted_scale(), 1);
}

TEST(StreamedCalibration, AWeightOfTwoCountsAsTwoValues) {
  const Values values = drawn(0.5, 1, 400);
  StreamedCalibration once, twice;
  for (size_t i = 0; i < values.labels.size(); ++i) {
    const double mean = values.predicted.mean[i], deviation = values.predicted.deviation[i], label = values.labels[i];
    const double weight = i % 3 == 0 ? 2 : 1;
    once.add(mean, deviation, label, weight);
    for (double j = 0; j < weight; ++j) twice.add(mean, deviation, label, 1);
  }
  const Calibration one = once.figures(), two = twice.figures();
  EXPECT_NEAR(one.mae, two.mae, 1e-12);
  EXPECT_NEAR(one.rmse, two.rmse, 1e-12);
  EXPECT_NEAR(one.miscalibration_area, two.miscalibration_area, 1e-12);
  EXPECT_NEAR(one.sharpness, two.sharpness, 1e-12);
  EXPECT_NEAR(one.ence, two.ence, 1e-12);
  EXPECT_NEAR(one.nll, two.nll, 1e-12);
  EXPECT_NEAR(one.spearman, two.spearman, 1e-12);
}

TEST(StreamedCalibration, LeavesOutWhatIsNotFiniteAndHasNoFiguresOfNoSpread) {
  StreamedCalibration stream;
  stream.add(1, 1, std::numeric_limits<double>::quiet_NaN(), 1);
  stream.add(std::numeric_limits<double>::infinity(), 1, 0, 1);
  EXPECT_TRUE(std::isnan(stream.figures().mae));
  stream.add(3, 0, 1, 1);
  const Calibration found = stream.figures();
  EXPECT_EQ(found.count, 1);
  EXPECT_EQ(found.mae, 2);
  EXPECT_TRUE(std::isnan(found.miscalibration_area));
  EXPECT_TRUE(std::isnan(found.spearman));
}

}  // namespace
}  // namespace terrace::ensemble
