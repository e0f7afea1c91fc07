// Tests which noise follows from times that are given, by hand.
#include "terrace/measure/fit_noise.h"

#include <gtest/gtest.h>

#include <vector>

namespace terrace::measure {
namespace {

// 0.095, 0.0975, 0.1, 0.1025, 0.105 each as often: quartiles at 0.0975 and 0.1025.
std::vector<double> times_without_pauses(int count) {
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    for (const double time : {0.095, 0.0975, 0.1, 0.1025, 0.105}) times.push_back(time);
  }
  return times;
}

TEST(FitNoise, SpreadFollowsFromTheQuartiles) {
  const RankTimes rank = summarize(times_without_pauses(20));
  EXPECT_EQ(rank.median, 0.1);
  EXPECT_NEAR(rank.spread, 0.005 / 1.349 / 0.1, 1e-12);
  EXPECT_NEAR(rank.seconds, 10, 1e-12);
  EXPECT_EQ(rank.pauses, 0);
  EXPECT_EQ(fit_noise({rank}), (machine::Noise{.instruction_spread = 0.0371}));
}

// Two computations that take 0.5 s and 0.3 s longer in 10.3 s + 0.8 s + 0.2 s.
TEST(FitNoise, LongTimesArePauses) {
  std::vector<double> times = times_without_pauses(20);
  times.insert(times.end(), {0.6, 0.4, 0.13});  // the last one is within ten standard deviations
  const RankTimes rank = summarize(times);
  EXPECT_EQ(rank.median, 0.1);
  EXPECT_EQ(rank.pauses, 2);
  EXPECT_NEAR(rank.pause_seconds, 0.8, 1e-12);
  const machine::Noise noise = fit_noise({rank, summarize(times_without_pauses(20))});
  EXPECT_EQ(noise.pause_every_seconds, 10.6);  // 11.13 s and 10 s with two pauses
  EXPECT_EQ(noise.pause_seconds, 0.4);
}

// Twice as many pauses as seconds: the longest of them count, one a second, and are at most a tenth of the time.
TEST(FitNoise, FrequentPausesAreLimited) {
  std::vector<double> times(20, 0.05);
  times.insert(times.end(), {0.2, 0.3, 0.4, 0.5});  // 2.4 s together
  const RankTimes rank = summarize(times);
  EXPECT_EQ(rank.pauses, 2);
  EXPECT_NEAR(rank.pause_seconds, 0.45 + 0.35, 1e-12);
  const machine::Noise noise = fit_noise({rank});
  EXPECT_EQ(noise.pause_every_seconds, 1.2);
  EXPECT_NEAR(noise.pause_seconds, 0.12, 1e-12);
  EXPECT_EQ(machine::pause_problem(noise), "");
}

TEST(FitNoise, RanksThatTakeLongerAreSlow) {
  std::vector<RankTimes> ranks(10, RankTimes{.median = 1, .spread = 0, .seconds = 1});
  EXPECT_EQ(fit_noise(ranks), machine::Noise{});
  ranks[3].median = 1.2;
  ranks[7].median = 1.1;
  ranks[8].median = 1.04;
  EXPECT_EQ(fit_noise(ranks), (machine::Noise{.slow_devices = 0.2, .slow_by = 0.15}));
}

}  // namespace
}  // namespace terrace::measure
