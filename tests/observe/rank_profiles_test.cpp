// Who waits for whom in profiles whose answers are known, and what is said of them.
#include "terrace/observe/rank_profiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "tests/scratch_folder.h"

namespace terrace::observe {
namespace {

using testing::Contains;
using testing::HasSubstr;

// Rank 2 computes longest of a group of three, and comes last to its sums; rank 3 of the next stage waits for rank 0.
ProfiledRanks three_and_one() {
  ProfiledRanks profiled{.step = 4};
  const double computing[] = {0.6, 0.5, 0.9};
  for (int64_t rank = 0; rank < 3; ++rank) {
    const double waits = 0.95 - computing[rank];
    profiled.ranks.push_back(
        {.rank = rank,
         .stage = 0,
         .place = "node a",
         .step_seconds = 1,
         .seconds = {{"forward", computing[rank]}, {"waits for shard_gradients", waits}, {"other", 0.05}},
         .memory_bytes = {{"weights", 1e9}, {"gradients", 1e9}},
         .groups = {{.group = "shard_gradients", .first = 0, .members = 3, .waited_seconds = waits}}});
  }
  profiled.ranks.push_back({.rank = 3,
                            .stage = 1,
                            .step_seconds = 1,
                            .seconds = {{"forward", 0.4}, {stage_waits, 0.6}},
                            .memory_bytes = {{"weights", 3e9}},
                            .stages = {{.rank = 0, .seconds = 0.6}}});
  profiled.critical_path = {"22% of the step is stage 3's weight gradient"};
  return profiled;
}

TEST(RankProfiles, MembersWaitForTheOneThatWaitsLeast) {
  const std::vector<WaitForRank> waits = longest_waits(three_and_one().ranks, 10);
  ASSERT_EQ(waits.size(), 3u);
  EXPECT_EQ(waits[0], (WaitForRank{.waiting = 3, .awaited = 0, .group = "stages", .seconds = 0.6}));
  EXPECT_EQ(waits[1].waiting, 1);
  EXPECT_EQ(waits[1].awaited, 2);
  EXPECT_NEAR(waits[1].seconds, 0.4, 1e-12);
  EXPECT_EQ(waits[2].waiting, 0);
  EXPECT_NEAR(waits[2].seconds, 0.3, 1e-12);
  EXPECT_EQ(longest_waits(three_and_one().ranks, 1).size(), 1u);
}

TEST(RankProfiles, SentencesNameTheSlowestTheIdlestAndTheLargest) {
  const std::vector<std::string> sentences = sentences_of(three_and_one());
  EXPECT_THAT(sentences, Contains("ranks compute for 60% of the step on average: rank 3 for 40%, rank 2 for 90%"));
  EXPECT_THAT(sentences, Contains("slowest rank: 2 (node a) computes for 900 ms, +50% of the median of stage 0"));
  EXPECT_THAT(sentences, Contains("rank 1 waits 400 ms for rank 2 (shard_gradients)"));
  EXPECT_THAT(sentences, Contains("22% of the step is stage 3's weight gradient"));
  EXPECT_THAT(sentences, Contains(HasSubstr("most memory: rank 3 with 2.8 GiB")));
  EXPECT_TRUE(sentences_of({}).empty());
}

TEST(RankProfiles, FileIsReadAsItWasWritten) {
  const ScratchFolder folder;
  EXPECT_FALSE(read_rank_profiles(folder.path()));
  write_rank_profiles(three_and_one(), folder.path());
  EXPECT_EQ(read_rank_profiles(folder.path()), three_and_one());
  write_text_atomically(folder / "profile.json", "{}");
  EXPECT_THAT([&] { read_rank_profiles(folder.path()); },
              testing::ThrowsMessage<UserError>(HasSubstr("profile.json is not the profile of a run's ranks")));
}

}  // namespace
}  // namespace terrace::observe
