// Rehearsals of all families end with the losses of one rank, divide the model as the wide one is divided, and find
// what goes wrong.
#include "terrace/rehearse/rehearsal.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "terrace/machine/machine.h"
#include "terrace/machine/software.h"
#include "terrace/models/families.h"
#include "terrace/plan/prediction.h"
#include "terrace/rehearse/narrowed_run.h"
#include "terrace/schedule/description.h"
#include "tests/paths.h"
#include "tests/scratch_folder.h"

namespace terrace::rehearse {
namespace {

plan::Target frontier(int64_t devices) {
  return {.machine = machine::load("frontier"), .software = machine::load_software("terrace"), .devices = devices};
}

config::Config gpt(const std::vector<std::string>& keys) {
  return config::load(tests::source_dir() / "configs/frontier-22b.toml", models::families(), keys);
}

Rehearsal rehearsed(const config::Config& config, int64_t devices, int64_t micro_batches = 4) {
  at::set_num_threads(1);
  const ScratchFolder folder;
  return rehearse(config, frontier(devices),
                  {.narrow = {.steps = 2, .folder = folder.path() / "run"}, .micro_batches = micro_batches});
}

TEST(Rehearsals, AGptWithAllAxesHasTheLossesOfOneRank) {
  const Rehearsal rehearsal = rehearsed(
      gpt({"layout.tensor=2", "layout.pipeline=4", "layout.sharding=zero1", "layout.sequence_parallel=true"}), 32);
  EXPECT_EQ(rehearsal.nodes, 4);
  EXPECT_EQ(rehearsal.micro_batches, 4);
  EXPECT_EQ(rehearsal.losses.size(), 2U);
  ASSERT_TRUE(rehearsal.loss_error.has_value());
  EXPECT_TRUE(rehearsal.holds()) << rehearsal.loss_error->ratio();
  EXPECT_GT(rehearsal.loss_error->one_rank, 0);  // bf16
  EXPECT_GT(rehearsal.checkpoint_files, 16);
  EXPECT_LT(rehearsal.parameters, rehearsal.wide_parameters / 1000);
}

// The units of the wide model are divided among the stages by their costs, and the narrowed one has the same division.
TEST(Rehearsals, StagesHaveTheUnitsOfTheWideModel) {
  const config::Config config = config::load(tests::source_dir() / "configs/gpt2-124m.toml", models::families(),
                                             {"layout.pipeline=4", "train.global_batch=30"});
  const plan::PlannedRun planned = plan::planned_run(config, frontier(8));
  const NarrowedRun run(planned, {.folder = "unused"});
  const schedule::Partition narrow = schedule::partition(schedule::unit_table(run.config()), run.config().layout);
  ASSERT_EQ(narrow.virtual_stages.size(), 4U);
  EXPECT_EQ(narrow.virtual_stages, planned.partition().virtual_stages);
  // A table of the narrowed model's own costs divides otherwise: its head is a smaller share.
  config::Config own = run.config();
  own.family = config.family;
  EXPECT_NE(schedule::partition(schedule::unit_table(own), own.layout).virtual_stages, narrow.virtual_stages);
}

TEST(Rehearsals, AVisionTransformerWithHybridStopHasTheLossesOfOneRank) {
  const config::Config config =
      config::load(tests::source_dir() / "configs/vit-115m.toml", models::families(),
                   {"layout.tensor=2", "layout.sharding=hybrid", "layout.shard_group=4", "train.global_batch=64"});
  const Rehearsal rehearsal = rehearsed(config, 16);
  EXPECT_TRUE(rehearsal.holds()) << rehearsal.loss_error->ratio();
}

TEST(Rehearsals, AGraphNetworkHasTheLossesOfOneRank) {
  const config::Config config = config::load(tests::source_dir() / "configs/molecules.toml", models::families(),
                                             {"layout.sharding=zero2", "train.global_batch=16", "data.average_atoms=9",
                                              "data.most_atoms=30", "data.average_edges=60", "data.most_edges=400"});
  const Rehearsal rehearsal = rehearsed(config, 8, 0);
  EXPECT_TRUE(rehearsal.holds()) << rehearsal.loss_error->ratio();
}

Rehearsal timed(std::map<int64_t, double> slow_ranks = {}) {
  const ScratchFolder folder;
  const config::Config config = gpt({"layout.tensor=2", "layout.pipeline=4", "layout.sharding=zero1"});
  return rehearse(config, frontier(16),
                  {.narrow = {.steps = 3, .folder = folder.path() / "run"},
                   .compares = false,
                   .timed = true,
                   .micro_batches = 8,
                   .slow = {.ranks = std::move(slow_ranks)}});
}

// The clocks know of no list but that of the executor: that they agree says that the simulation has its order and
// waits.
TEST(Rehearsals, ClocksShowTheSimulatedStep) {
  const Rehearsal rehearsal = timed();
  ASSERT_TRUE(rehearsal.clocked.has_value());
  const ClockedSteps& clocked = *rehearsal.clocked;
  ASSERT_EQ(clocked.seconds.size(), 3U);
  EXPECT_NEAR(clocked.seconds.back(), clocked.simulated_seconds, 0.05 * clocked.simulated_seconds);
  EXPECT_EQ(clocked.other_order, "");
  EXPECT_LT(std::abs(clocked.shift_seconds), 0.01 * clocked.simulated_seconds);
  EXPECT_NEAR(clocked.exposed_seconds, clocked.simulated_exposed_seconds, 0.01 * clocked.simulated_seconds);
}

// A rank of the last stage that computes twice as long makes nearly all of the step as much longer.
TEST(Rehearsals, ASlowRankMakesTheStepLonger) {
  const double without = timed().clocked->seconds.back();
  const double with = timed({{15, 1.0}}).clocked->seconds.back();
  EXPECT_GT(with, 1.5 * without);
  EXPECT_LT(with, 2.1 * without);
}

Rehearsal slowed(const SlowParts& slow, int64_t steps) {
  const ScratchFolder folder;
  at::set_num_threads(1);
  const config::Config config =
      gpt({"model.layers=4", "layout.tensor=2", "layout.pipeline=2", "layout.sharding=zero1"});
  return rehearse(config, frontier(16),
                  {.narrow = {.steps = steps, .folder = folder.path() / "run"},
                   .compares = false,
                   .compares_start = false,
                   .timed = true,
                   .micro_batches = 2,
                   .slow = slow});
}

// The watch of the run measures by the clocks of the ranks.
TEST(Rehearsals, ARankThatBecomesSlowIsNamedWithinTenSteps) {
  const Rehearsal rehearsal = slowed({.ranks = {{5, 0.2}}, .after = 8}, 18);
  ASSERT_FALSE(rehearsal.slow.empty());
  const observe::Slowness& first = rehearsal.slow.front();
  EXPECT_EQ(first.what, "rank");
  EXPECT_EQ(first.rank, 5);
  EXPECT_GT(first.step, 8);
  EXPECT_NEAR(first.excess, 0.2, 0.02);
  for (const observe::Slowness& one : rehearsal.slow) EXPECT_EQ(one.rank, 5) << one.text;
}

// Rank 8 has the same place in the second stage as rank 0 in the first; rank 4 is one of those that sum gradients with
// rank 0. The run has to know its usual steps first.
TEST(Rehearsals, ALinkThatBecomesSlowIsNamedWithinTenSteps) {
  for (const int64_t other : {8, 4}) {
    const Rehearsal rehearsal = slowed({.links = {{{0, other}, 1000}}, .after = 20}, 30);
    ASSERT_FALSE(rehearsal.slow.empty()) << other;
    const observe::Slowness& first = rehearsal.slow.front();
    EXPECT_EQ(first.what, "link") << first.text;
    EXPECT_EQ(std::set({first.rank, first.to}), std::set({int64_t{0}, other})) << first.text;
    EXPECT_GT(first.step, 20);
  }
}

TEST(Rehearsals, AKilledRankIsReplacedFromTheMemoryOfOtherNodes) {
  const ScratchFolder folder;
  at::set_num_threads(1);
  config::Config config = gpt({"layout.tensor=2", "layout.pipeline=4", "layout.sharding=zero1"});
  config.checkpoint.memory_folder = folder.path().string();
  const Rehearsal rehearsal = rehearse(config, frontier(32),
                                       {.narrow = {.steps = 5, .folder = folder.path() / "run"},
                                        .compares_start = false,
                                        .micro_batches = 2,
                                        .killed = KilledRank{.rank = 13, .step = 4}});
  ASSERT_TRUE(rehearsal.killed.has_value());
  EXPECT_EQ(rehearsal.killed->node, 1);
  EXPECT_TRUE(rehearsal.killed->from_memory);
  EXPECT_GE(rehearsal.killed->resumed_step, 1);  // the copy of step 3 may not have been whole yet
  EXPECT_LE(rehearsal.killed->resumed_step, 3);
  EXPECT_TRUE(rehearsal.killed->same_bits);
  EXPECT_TRUE(rehearsal.holds());
}

TEST(Rehearsals, AStartEndsBeforeItsFirstStep) {
  const ScratchFolder folder;
  at::set_num_threads(1);
  const Rehearsal rehearsal = rehearse(gpt({"layout.tensor=2", "layout.pipeline=4", "layout.sharding=zero1"}),
                                       frontier(64), {.narrow = {.steps = 0, .folder = folder.path() / "run"}});
  EXPECT_EQ(rehearsal.start.ranks, 64);
  EXPECT_GT(rehearsal.start.processor_seconds, 0);
  ASSERT_TRUE(rehearsal.start_of_half.has_value());
  EXPECT_EQ(rehearsal.start_of_half->ranks, 32);
  EXPECT_TRUE(rehearsal.losses.empty());
  EXPECT_EQ(rehearsal.checkpoint_files, 0);
  EXPECT_FALSE(rehearsal.clocked.has_value());
}

TEST(Rehearsals, AWrongLossDoesNotHold) {
  Rehearsal rehearsal = rehearsed(gpt({"layout.tensor=2", "layout.pipeline=2", "layout.sharding=zero1"}), 8);
  ASSERT_TRUE(rehearsal.holds());
  rehearsal.loss_error->ours = 3 * rehearsal.loss_error->one_rank + 2 * rehearsal.loss_error->rounding;
  EXPECT_FALSE(rehearsal.holds());
  EXPECT_THAT(text_of(rehearsal), testing::HasSubstr("more than twice"));
}

}  // namespace
}  // namespace terrace::rehearse
