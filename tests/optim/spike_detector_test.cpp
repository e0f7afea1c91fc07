// Tests medians, deviations and the threshold of spikes with numbers worked out by hand.
#include "terrace/optim/spike_detector.h"

#include <gtest/gtest.h>

namespace terrace::optim {
namespace {

TEST(SpikeDetector, DeviationsAreThoseOfTheMedian) {
  // Median 3, distances 2 1 0 1 97: their median is 1.
  const Deviation odd = deviation_of(10, {1, 2, 3, 4, 100});
  EXPECT_DOUBLE_EQ(odd.median, 3);
  EXPECT_DOUBLE_EQ(odd.deviation, 1.4826);
  EXPECT_DOUBLE_EQ(odd.above(), 7 / 1.4826);
  // Median 2.5, distances 1.5 0.5 0.5 1.5.
  EXPECT_DOUBLE_EQ(deviation_of(0, {4, 3, 2, 1}).deviation, 1.4826);
  // Equal numbers have no distances: a hundredth of the median counts.
  EXPECT_DOUBLE_EQ(deviation_of(5, {4, 4, 4}).deviation, 0.04);
  EXPECT_DOUBLE_EQ(deviation_of(-5, {-4, -4}).deviation, 0.04);
  EXPECT_GT(deviation_of(1e-300, {0, 0}).above(), 1);
}

TEST(SpikeDetector, FindsLossesAndGradientNormsAboveTheThreshold) {
  SpikeDetector detector(5, 5);
  for (const double loss : {1, 2, 3, 4}) detector.add(loss, 1);
  EXPECT_FALSE(detector.find(1e9, 1e9).has_value());  // the window is not full
  detector.add(100, 1);
  EXPECT_FALSE(detector.find(3 + 4.9 * 1.4826, 1.049).has_value());
  EXPECT_FALSE(detector.find(-1e9, -1e9).has_value());  // a fall is no spike
  const auto loss = detector.find(3 + 5.1 * 1.4826, 1);
  ASSERT_TRUE(loss.has_value());
  EXPECT_TRUE(loss->of_loss && !loss->of_gradient_norm);
  const auto norm = detector.find(3, 1.051);
  ASSERT_TRUE(norm.has_value());
  EXPECT_TRUE(!norm->of_loss && norm->of_gradient_norm);
  EXPECT_DOUBLE_EQ(norm->gradient_norm.value, 1.051);
}

TEST(SpikeDetector, ForgetsWhatIsOutsideOfTheWindow) {
  SpikeDetector detector(5, 3);
  for (const double loss : {9, 8, 1, 2, 3}) detector.add(loss, loss / 2);
  EXPECT_EQ(detector.losses(), (std::deque<double>{1, 2, 3}));
  EXPECT_EQ(detector.gradient_norms(), (std::deque<double>{0.5, 1, 1.5}));
  SpikeDetector shorter(5, 2);
  shorter.restore(detector.losses(), detector.gradient_norms());
  EXPECT_EQ(shorter.losses(), (std::deque<double>{2, 3}));
}

}  // namespace
}  // namespace terrace::optim
