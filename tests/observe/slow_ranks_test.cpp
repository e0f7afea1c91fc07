// Which ranks are named as slow, and after how many steps, from times with and without noise.
#include "terrace/observe/slow_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "terrace/base/random.h"
#include "terrace/observe/metrics.h"
#include "terrace/observe/slowness_file.h"
#include "tests/scratch_folder.h"

namespace terrace::observe {
namespace {

using testing::HasSubstr;

// The medians of a window of `ranks` ranks that compute for 50 ms and wait for as long; each with so much noise.
class Times {
 public:
  Times(size_t ranks, double noise) : ranks_(ranks), noise_(noise) {}

  std::vector<RankTimes> window() {
    std::vector<RankTimes> times;
    for (size_t rank = 0; rank < ranks_; ++rank) {
      const double factor = (1 + noise_ * draw()) * (static_cast<int64_t>(rank) == slow ? 1 + slowness : 1.0);
      RankTimes& one = times.emplace_back(RankTimes{.seconds = 0.05 * factor, .step_seconds = 0.1 * step_factor});
      one.kinds[static_cast<size_t>(WorkKind::forward)] = 0.02;
      one.kinds[static_cast<size_t>(WorkKind::backward)] = 0.05 * factor - 0.02;
    }
    return times;
  }

  int64_t slow = -1;
  double slowness = 0.2, step_factor = 1;

 private:
  // Uniform, with a deviation of 1.
  double draw() { return std::sqrt(12.0) * (philox_at({3, 4}, 0, number_++)[0] / 4294967296.0 - 0.5); }
  size_t ranks_;
  double noise_;
  uint64_t number_ = 0;
};

std::vector<int64_t> ranks_of(const std::vector<SlowRank>& slow) {
  std::vector<int64_t> ranks;
  for (const SlowRank& one : slow) ranks.push_back(one.rank);
  return ranks;
}

TEST(SlowRanks, RankThatBecomesSlowIsNamedInTheSecondWindow) {
  for (const size_t ranks : {2, 3, 16}) {
    Times times(ranks, 0.01);
    SlowRankJudge judge(std::vector<int64_t>(ranks, 0));
    for (int i = 0; i < 8; ++i) EXPECT_TRUE(judge.judge(times.window()).begun.empty());
    times.slow = 1;
    EXPECT_TRUE(judge.judge(times.window()).begun.empty());
    const WatchFindings found = judge.judge(times.window());
    ASSERT_EQ(ranks_of(found.begun), std::vector<int64_t>{1}) << ranks;
    EXPECT_NEAR(found.begun.front().excess, 0.2, 0.05);
    EXPECT_EQ(found.begun.front().kind, WorkKind::backward);
    EXPECT_EQ(found.slowest.rank, 1);
    EXPECT_TRUE(judge.judge(times.window()).begun.empty());
    times.slow = -1;
    EXPECT_TRUE(judge.judge(times.window()).ended.empty());
    const WatchFindings after = judge.judge(times.window());
    EXPECT_EQ(after.ended, std::vector<int64_t>{1});
    EXPECT_TRUE(after.slow.empty());
  }
}

TEST(SlowRanks, RankThatIsSlowFromTheBeginningIsNamed) {
  Times times(4, 0.01);
  times.slow = 3;
  SlowRankJudge judge({0, 0, 0, 0});
  std::vector<int64_t> named;
  for (int i = 0; i < 5; ++i) {
    for (const int64_t rank : ranks_of(judge.judge(times.window()).begun)) named.push_back(rank);
  }
  EXPECT_EQ(named, std::vector<int64_t>{3});
}

// Within the noise of one window, a rank of 64 exceeds a tenth in nearly each of them.
TEST(SlowRanks, NoiseNamesNobody) {
  Times times(64, 0.08);
  SlowRankJudge judge(std::vector<int64_t>(64, 0));
  double most = 0;
  for (int i = 0; i < 300; ++i) {
    const WatchFindings found = judge.judge(times.window());
    EXPECT_TRUE(found.begun.empty()) << i;
    EXPECT_FALSE(found.longer_steps_begun);
    most = std::max(most, found.slowest.excess);
  }
  EXPECT_GT(most, 0.1);
}

// Stages do different work, and a stage of one rank has only its own past.
TEST(SlowRanks, StageOfOneRankIsComparedWithItsPast) {
  Times times(2, 0.01);
  SlowRankJudge judge({0, 1});
  const auto window = [&] {
    std::vector<RankTimes> ranks = times.window();
    ranks[1].seconds *= 3;
    ranks[1].kinds[static_cast<size_t>(WorkKind::backward)] *= 3;
    return ranks;
  };
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(judge.judge(window()).begun.empty());
  times.slow = 1;
  EXPECT_TRUE(judge.judge(window()).begun.empty());
  const WatchFindings found = judge.judge(window());
  ASSERT_EQ(ranks_of(found.begun), std::vector<int64_t>{1});
  EXPECT_TRUE(found.begun.front().against_past);
}

TEST(SlowRanks, LongerStepsAreToldOnceAndOnlyWhereNoRankExplainsThem) {
  for (const bool explained : {false, true}) {
    Times times(4, 0.01);
    SlowRankJudge judge({0, 0, 0, 0});
    for (int i = 0; i < 8; ++i) judge.judge(times.window());
    times.step_factor = 1.3;
    if (explained) times.slow = 2;
    int told = 0, ended = 0;
    for (int i = 0; i < 6; ++i) told += judge.judge(times.window()).longer_steps_begun ? 1 : 0;
    EXPECT_EQ(told, explained ? 0 : 1);
    times.step_factor = 1;
    for (int i = 0; i < 6; ++i) ended += judge.judge(times.window()).longer_steps_ended ? 1 : 0;
    EXPECT_EQ(ended, told);
  }
}

TEST(SlowRanks, TextNamesPlaceCauseAndKind) {
  const SlowRank slow{.rank = 5,
                      .excess = 0.24,
                      .seconds = 0.062,
                      .usual_seconds = 0.05,
                      .kind = WorkKind::backward,
                      .kind_excess = 0.38,
                      .core_wait = 0.2};
  EXPECT_EQ(
      text_of(slow, "node a, cores 4-7", 1, 8, "a step's work"),
      "rank 5 (node a, cores 4-7) computes 24% slower than the other 7 ranks of stage 1 (their median): 62.0 ms in "
      "place of 50.0 ms for a step's work, most of it in backward (+38%); its thread waited 20% of the time for a "
      "core, on which other work runs");
}

TEST(SlowRanks, FileKeepsWhatWasNamedAndItsEnd) {
  const ScratchFolder folder;
  const Slowness rank{
      .step = 12, .what = "rank", .rank = 5, .place = "node a", .excess = 0.24, .text = "rank 5 is slow"};
  append_slowness(folder.path(), rank);
  append_slowness(folder.path(), {.step = 15, .what = "link", .rank = 1, .to = 2, .text = "1 to 2"});
  append_slowness(folder.path(), {.step = 30, .what = "rank", .ended = true, .rank = 5});
  const std::vector<Slowness> all = read_slowness(folder.path());
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all.front(), rank);
  EXPECT_THAT(texts_of(all),
              testing::ElementsAre("from step 12 to step 30: rank 5 is slow", "from step 15 on: 1 to 2"));
}

TEST(SlowRanks, MetricsKeepTheSlowestRankAndNoFigureIsMadeOfIt) {
  const ScratchFolder folder;
  const StepMetrics step{.step = 1, .watch = WatchMetrics{.slowest_rank = 5, .slowest_excess = 0.25, .slow_ranks = 1}};
  MetricsWriter(folder.path(), 0).write(step);
  const RunMetrics read = read_metrics(folder.path());
  EXPECT_EQ(read.steps.at(1).watch, step.watch);
  EXPECT_TRUE(read.names.figures.empty());
}

}  // namespace
}  // namespace terrace::observe
