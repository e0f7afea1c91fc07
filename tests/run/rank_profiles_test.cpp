// The profile of all ranks of a run: everyone is in it, its times add up, and the report has it.
#include "terrace/observe/rank_profiles.h"

#include <gtest/gtest.h>

#include "terrace/observe/summary.h"
#include "terrace/run/run_training.h"
#include "tests/train/tiny_run.h"

namespace terrace::run {
namespace {

class RunWithProfiles : public train::TinyRun {};

TEST_F(RunWithProfiles, HasEachRankWithWaitsMemoryAndTheCriticalPath) {
  const std::filesystem::path folder = folder_ / "run";
  observe::ProfiledRanks reported;
  run_training(tiny_config({"layout.pipeline=2", "layout.sharding=zero2", "train.micro_batch=1", "train.threads=1"}),
               {.ranks = 4, .profile_steps = 3, .report_ranks = [&](const auto& profiled) { reported = profiled; }});
  const std::optional<observe::ProfiledRanks> profiled = observe::read_rank_profiles(folder);
  ASSERT_TRUE(profiled);
  EXPECT_EQ(*profiled, reported);
  ASSERT_EQ(profiled->ranks.size(), 4u);
  const observe::StepRecord measured = observe::read_step_record(folder / observe::measured_step_file);
  EXPECT_EQ(profiled->step, measured.step);
  EXPECT_GT(profiled->step, 5);  // those before record the operations of the first rank
  for (int64_t rank = 0; rank < 4; ++rank) {
    const observe::RankProfile& one = profiled->ranks[static_cast<size_t>(rank)];
    EXPECT_EQ(one.rank, rank);
    EXPECT_EQ(one.stage, rank / 2);
    EXPECT_FALSE(one.place.empty());
    EXPECT_NEAR(observe::sum(one.seconds), one.step_seconds, 1e-3 * one.step_seconds);
    EXPECT_GT(one.computing(), 0);
    EXPECT_LE(one.computing() + one.waiting(), one.step_seconds * 1.001);
    EXPECT_GT(observe::figure(one.memory_bytes, "weights"), 0);
  }
  EXPECT_GE(profiled->slowest_link.from, 0);
  EXPECT_GT(profiled->slowest_link.seconds, 0);
  ASSERT_FALSE(profiled->critical_path.empty());
  const Json summary = observe::summarize_run(folder);
  EXPECT_EQ(summary.at("profile").at("shown_ranks").size(), 4u);
  EXPECT_EQ(summary.at("profile").at("sentences"), Json(observe::sentences_of(*profiled)));
}

TEST_F(RunWithProfiles, OfOneRankHasNoOtherRanks) {
  run_training(tiny_config({"train.threads=1"}), {.ranks = 1, .profile_steps = 3});
  EXPECT_FALSE(observe::read_rank_profiles(folder_ / "run"));
}

}  // namespace
}  // namespace terrace::run
