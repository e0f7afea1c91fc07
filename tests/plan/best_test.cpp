// Compares the best layouts with those of simulating every layout of a small space.
#include "terrace/plan/best.h"

#include <gtest/gtest.h>

#include "terrace/base/error.h"
#include "terrace/plan/layout_space.h"
#include "terrace/plan/variation.h"
#include "tests/plan/small_gpt.h"
#include "tests/plan/small_machine.h"

namespace terrace::plan {
namespace {

config::Config four_layers_of_48() { return small_gpt(4, 48, 4); }

TEST(BestLayouts, AreThoseOfSimulatingAll) {
  for (const int64_t devices : {1, 4}) {
    for (const double latency : {0.0, 1.0}) {
      Target target{.machine = small_machine(), .software = {}, .devices = devices};
      for (machine::Tier& tier : target.machine.tiers) tier.latency_seconds = latency;
      const BestLayouts fast = best_layouts(four_layers_of_48(), target, {.count = 3});
      const BestLayouts all = best_layouts(four_layers_of_48(), target, {.count = 3, .simulates_all = true});
      ASSERT_EQ(fast.layouts.size(), all.layouts.size());
      for (size_t i = 0; i < all.layouts.size(); ++i) {
        EXPECT_EQ(fast.layouts[i].prediction.step_seconds, all.layouts[i].prediction.step_seconds);
      }
      EXPECT_EQ(fast.legal, all.legal);
      EXPECT_EQ(all.simulated, all.fitting);
      EXPECT_LE(fast.simulated, all.simulated);
    }
  }
}

TEST(BestLayouts, AreNoSlowerThanAnyVariation) {
  const Target target{.machine = small_machine(), .software = {}, .devices = 8};
  const BestLayouts best = best_layouts(four_layers_of_48(), target, {});
  for (const Change& change :
       best_changes(best.layouts.front().config, target, best.layouts.front().prediction.step_seconds, 100)) {
    EXPECT_LE(change.gain, 1e-9) << change.settings.front();
  }
}

TEST(BestLayouts, LeaveOutWhatDoesNotFit) {
  Target target{.machine = small_machine(), .software = {}, .devices = 4};
  const BestLayouts free = best_layouts(four_layers_of_48(), target, {});
  double least = 0;
  for (const StagePrediction& stage : free.layouts.front().prediction.stages)
    least = std::max(least, stage.memory.total());
  target.machine.device.memory_bytes = least - 1;
  const BestLayouts tight = best_layouts(four_layers_of_48(), target, {});
  EXPECT_LT(tight.fitting, free.fitting);
  EXPECT_GE(tight.layouts.front().prediction.step_seconds, free.layouts.front().prediction.step_seconds);
  EXPECT_TRUE(tight.layouts.front().prediction.feasible());
}

TEST(BestLayouts, SayWhyNoneFits) {
  Target target{.machine = small_machine(), .software = {}, .devices = 2};
  target.machine.device.memory_bytes = 1000;
  try {
    best_layouts(four_layers_of_48(), target, {});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code, ExitCode::infeasible);
    EXPECT_NE(std::string(error.what()).find("no layout fits: the one that needs least memory needs "),
              std::string::npos);
  }
}

TEST(BestLayouts, RefuseMoreDevicesThanTheMachineHas) {
  EXPECT_THROW(best_layouts(four_layers_of_48(), {.machine = small_machine(), .software = {}, .devices = 128}, {}),
               UserError);
}

TEST(LegalLayouts, HoldEveryRuleAndDivideTheRanks) {
  const std::vector<config::Config> layouts = legal_layouts(four_layers_of_48(), 8, 4, 8);
  EXPECT_GT(layouts.size(), 200);
  for (const config::Config& one : layouts) {
    EXPECT_TRUE(holds_rules(one));
    EXPECT_EQ(8 % (one.layout.tensor * one.layout.pipeline), 0);
    EXPECT_EQ(8 % (8 / one.layout.tensor / one.layout.pipeline * one.train.micro_batch), 0);
  }
}

TEST(Variations, DifferInTheKeysThatTheyName) {
  const config::Config config = four_layers_of_48();
  const std::vector<Variation> list = variations(config);
  EXPECT_GT(list.size(), 8);
  for (const Variation& one : list) {
    EXPECT_EQ(differences(config, one.config), one.settings);
    EXPECT_TRUE(holds_rules(one.config));
  }
}

}  // namespace
}  // namespace terrace::plan
