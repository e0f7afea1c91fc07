// Compares the fastest of many layouts with those that are found by simulating all.
#include "terrace/plan/time/least_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/plan/time/tensor_reach.h"
#include "tests/plan/small_gpt.h"
#include "tests/plan/small_machine.h"

namespace terrace::plan {
namespace {

config::Config eight_layers() {
  config::Config config = small_gpt(8, 24, 4);
  config.train.global_batch = 32;
  config.layout.pipeline = 2;
  return config;
}

// All that fit, by the order that is asked for and then by their place in the list.
std::vector<Change> all_of(const config::Config& config, const Target& target, const FastestOptions& options) {
  std::vector<Change> changes;
  for (Variation& one : variations(config)) {
    Change change{.settings = std::move(one.settings), .config = std::move(one.config)};
    try {
      change.prediction = predict(change.config, target);
    } catch (const UserError&) {
      continue;
    }
    const bool leaves_node = tensor_leaves_domain(planned_run(change.config, target).mesh, target.machine);
    const double most = leaves_node ? options.most_seconds_over_nodes : options.most_seconds;
    const bool is_fast = change.prediction.step_seconds <= most;
    if (change.prediction.feasible() && is_fast) changes.push_back(std::move(change));
  }
  std::ranges::stable_sort(changes, {}, [&](const Change& change) {
    return std::pair(options.fewest_settings_first ? change.settings.size() : 0, change.prediction.step_seconds);
  });
  if (changes.size() > options.count) changes.resize(options.count);
  return changes;
}

TEST(LeastStep, TheFastestAreThoseOfSimulatingAll) {
  const config::Config config = eight_layers();
  Target target{.machine = small_machine(), .software = {}, .devices = 8};
  const Prediction given = predict(config, target);
  const double most = given.fullest().memory.total();
  for (const auto& [memory, communicator] :
       {std::pair(1e12, 0.0), {1.2 * most, 0.0}, {0.9 * most, 0.0}, {1.2 * most, 0.05 * most}}) {
    target.machine.device.memory_bytes = memory;
    target.machine.communicators.bytes = communicator;
    for (const bool fewest_settings_first : {false, true}) {
      for (const double most_seconds : {1e30, 0.999 * given.step_seconds}) {
        for (const size_t count : {1, 3, 100}) {
          const FastestOptions options{.count = count,
                                       .most_seconds = most_seconds,
                                       .most_seconds_over_nodes = 0.95 * most_seconds,
                                       .fewest_settings_first = fewest_settings_first};
          const std::vector<Change> found = fastest_of(variations(config), target, options);
          const std::vector<Change> expected = all_of(config, target, options);
          ASSERT_EQ(found.size(), expected.size());
          for (size_t i = 0; i < found.size(); ++i) {
            EXPECT_EQ(found[i].settings, expected[i].settings);
            EXPECT_EQ(found[i].prediction.step_seconds, expected[i].prediction.step_seconds);
          }
          EXPECT_TRUE(count == 1 || memory < most || !found.empty());
        }
      }
    }
  }
}

TEST(LeastStep, NoStepIsShorterThanItsBound) {
  const Target target{.machine = small_machine(), .software = {}, .devices = 8};
  int compared = 0;
  for (const Variation& one : variations(eight_layers())) {
    try {
      const PlannedRun run = planned_run(one.config, target);
      const PredictedCosts costs(run, target.machine, target.software);
      EXPECT_LE(least_step_seconds(run, costs), predict(run, target).step_seconds * (1 + 1e-12));
      ++compared;
    } catch (const UserError&) {
      continue;
    }
  }
  EXPECT_GT(compared, 8);
}

}  // namespace
}  // namespace terrace::plan
