// Compares the best layouts with those of simulating every layout of a small space.
#include "terrace/plan/layouts/best.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "terrace/base/error.h"
#include "terrace/models/planned_families.h"
#include "terrace/plan/layouts/fewest.h"
#include "terrace/plan/layouts/layout_space.h"
#include "terrace/plan/report/plan_report.h"
#include "terrace/plan/time/variation.h"
#include "tests/plan/small_gpt.h"
#include "tests/plan/small_machine.h"

namespace terrace::plan {
namespace {

config::Config four_layers_of_48() { return small_gpt(4, 48, 4); }

TEST(BestLayouts, EqualThoseOfSimulatingAll) {
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

TEST(BestLayouts, NoVariationIsFaster) {
  const Target target{.machine = small_machine(), .software = {}, .devices = 8};
  const BestLayouts best = best_layouts(four_layers_of_48(), target, {});
  for (const Change& change :
       best_changes(best.layouts.front().config, target, best.layouts.front().prediction.step_seconds, 100)) {
    EXPECT_LE(change.gain, 1e-9) << change.settings.front();
  }
}

TEST(BestLayouts, DifferInTheirSizes) {
  const Target target{.machine = small_machine(), .software = {}, .devices = 8};
  const BestLayouts best = best_layouts(four_layers_of_48(), target, {.count = 6});
  ASSERT_EQ(best.layouts.size(), 6U);
  std::set<std::tuple<int64_t, int64_t, int64_t, bool>> sizes;
  for (const Change& one : best.layouts) {
    const config::LayoutConfig& layout = one.config.layout;
    const bool cuts_weights = layout.sharding > config::Sharding::zero2;
    sizes.emplace(layout.tensor, layout.pipeline, one.config.train.micro_batch, cuts_weights);
  }
  EXPECT_EQ(sizes.size(), 6U);
}

// Links between nodes that are as fast as those inside make tensor groups over two nodes of four the fastest, by less
// than what is asked for, or by more.
TEST(BestLayouts, KeepTensorGroupsInsideTheNodeUnlessMuchIsGained) {
  Target target{.machine = computing_machine(), .software = {}, .devices = 8};
  config::Config config = small_gpt(4, 48, 8);
  config.train.global_batch = 1;
  const BestLayouts free = best_layouts(config, target, {.over_nodes_margin = 0});
  ASSERT_EQ(free.layouts.front().config.layout.tensor, 8);
  EXPECT_FALSE(free.over_nodes);
  const BestLayouts inside = best_layouts(config, target, {.over_nodes_margin = 100});
  EXPECT_LE(inside.layouts.front().config.layout.tensor, 4);
  ASSERT_TRUE(inside.over_nodes);
  EXPECT_EQ(inside.over_nodes->config.layout.tensor, 8);
  EXPECT_EQ(inside.over_nodes->prediction.step_seconds, free.layouts.front().prediction.step_seconds);
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

// Between the memory of all layers and of none, the fastest layout recomputes a part of them.
TEST(BestLayouts, RecomputeAsFewLayersAsFit) {
  config::Config config = four_layers_of_48();
  config.train.global_batch = config.train.micro_batch = 8;
  Target target{.machine = small_machine(), .software = {}, .devices = 1};
  const BestOptions one_micro_batch{.limits = {.kept = {"train.micro_batch"}}};
  const auto needed = [&](config::Recompute recompute) {
    config.train.recompute = recompute;
    return predict(config, target).fullest().needed_bytes();
  };
  const double all = needed(config::Recompute::full), none = needed(config::Recompute::none);
  target.machine.device.memory_bytes = (all + none) / 2;
  const BestLayouts best = best_layouts(config, target, one_micro_batch);
  const Change& first = best.layouts.front();
  EXPECT_EQ(first.config.train.recompute, config::Recompute::full);
  EXPECT_EQ(first.config.layout.recompute_layers.word, config::RecomputeLayers::Word::fit);
  EXPECT_GT(first.prediction.stages[0].recomputed_layers, 0);
  EXPECT_LT(first.prediction.stages[0].recomputed_layers, 4);
  EXPECT_NE(text_of(best, target).find(", recompute full of "), std::string::npos);
  BestOptions all_or_none = one_micro_batch;
  all_or_none.limits.kept.insert("layout.recompute_layers");
  EXPECT_GT(best_layouts(config, target, all_or_none).layouts.front().prediction.step_seconds,
            first.prediction.step_seconds);
  target.machine.device.memory_bytes = 2 * none;
  const BestLayouts roomy = best_layouts(config, target, one_micro_batch);
  EXPECT_EQ(roomy.layouts.front().config.layout.recompute_layers, config::RecomputeLayers{});
  EXPECT_EQ(roomy.legal, best_layouts(config, target, all_or_none).legal);
}

TEST(FewestDevices, AreThoseOnWhichSomeLayoutFits) {
  Target target{.machine = small_machine(), .software = {}, .devices = 1};
  const auto needed = [&](int64_t devices) {
    Target on = target;
    on.devices = devices;
    on.machine.device.memory_bytes = 1e12;
    double least = 1e12;
    for (const Change& one : best_layouts(four_layers_of_48(), on, {.count = 1000, .simulates_all = true}).layouts) {
      least = std::min(least, one.prediction.fullest().memory.total());
    }
    return least;
  };
  for (const int64_t devices : {1, 2, 4, 8}) {
    target.machine.device.memory_bytes = needed(devices) + 1;
    const FewestDevices fewest = fewest_devices(four_layers_of_48(), target, {});
    EXPECT_LE(fewest.target.devices, devices);
    EXPECT_TRUE(fewest.best.layouts.front().prediction.feasible());
    EXPECT_GE(json_of(fewest)["best"]["layouts"].size(), 1U);
    if (fewest.target.devices == 1) continue;
    target.devices = fewest.target.devices / 2;
    EXPECT_THROW(best_layouts(four_layers_of_48(), target, {}), UserError);
  }
  target.machine.device.memory_bytes = 1000;
  EXPECT_THROW(fewest_devices(four_layers_of_48(), target, {}), UserError);
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

using Layouts = std::vector<config::Config>;

Layouts only(Layouts layouts, const std::function<bool(const config::Config&)>& wanted) {
  std::erase_if(layouts, [&](const config::Config& one) { return !wanted(one); });
  return layouts;
}

// Expects that the layouts with a kept key are those of all layouts that have its value, where the key has an effect.
template <typename Field, typename Value>
void expect_kept(
    const std::string& key, const Field& field, const Value& value,
    const std::function<bool(const config::Config&)>& has_effect = [](const auto&) { return true; }) {
  SCOPED_TRACE(key);
  config::Config config = four_layers_of_48();
  field(config) = value;
  const Layouts kept = legal_layouts(config, 8, 4, 8, {.kept = {key}});
  EXPECT_TRUE(only(kept, [&](config::Config one) { return field(one) != value; }).empty());
  const Layouts expected =
      only(legal_layouts(four_layers_of_48(), 8, 4, 8), [&](config::Config one) { return field(one) == value; });
  EXPECT_FALSE(expected.empty());
  EXPECT_TRUE(only(kept, has_effect) == only(expected, has_effect));
  EXPECT_TRUE(varied_keys().contains(key));
}

TEST(LegalLayouts, KeepEachKeyThatIsToBeKept) {
  using config::PipelineSchedule;
  const auto data_ranks = [](const config::Config& c) { return 8 / c.layout.tensor / c.layout.pipeline; };
  const auto several = [&](const config::Config& c) { return data_ranks(c) > 1; };
  const auto several_of_both = [&](const config::Config& c) { return several(c) && c.layout.pipeline > 1; };
  expect_kept(
      "layout.tensor", [](auto& c) -> auto& { return c.layout.tensor; }, 2);
  expect_kept(
      "layout.pipeline", [](auto& c) -> auto& { return c.layout.pipeline; }, 4);
  expect_kept(
      "layout.schedule", [](auto& c) -> auto& { return c.layout.schedule; }, PipelineSchedule::interleaved);
  expect_kept(
      "layout.chunks", [](auto& c) -> auto& { return c.layout.chunks; }, 2);
  expect_kept(
      "layout.sharding", [](auto& c) -> auto& { return c.layout.sharding; }, config::Sharding::zero2, several);
  expect_kept(
      "layout.sequence_parallel", [](auto& c) -> auto& { return c.layout.sequence_parallel; }, true);
  expect_kept(
      "layout.order", [](auto& c) -> auto& { return c.layout.order; },
      std::vector<std::string>{"data", "pipeline", "tensor"}, several_of_both);
  expect_kept(
      "train.micro_batch", [](auto& c) -> auto& { return c.train.micro_batch; }, 2);
  expect_kept(
      "layout.recompute_layers", [](auto& c) -> auto& { return c.layout.recompute_layers; },
      config::RecomputeLayers{.word = config::RecomputeLayers::Word::fit},
      [](const config::Config& c) { return c.train.recompute == config::Recompute::full && c.layout.chunks == 1; });
  expect_kept(
      "train.recompute", [](auto& c) -> auto& { return c.train.recompute; }, config::Recompute::selective);
}

TEST(LegalLayouts, KeepValuesThatTheyTryOnlyThen) {
  config::Config config = four_layers_of_48();
  config.layout.schedule = config::PipelineSchedule::gpipe;
  config.layout.order = {"tensor", "pipeline", "data"};
  config.layout.sharding = config::Sharding::hybrid;
  config.layout.shard_group = 2;
  config.layout.stage_layers = {1, 3};
  config.train.micro_batch = 0;
  const Layouts layouts = legal_layouts(
      config, 8, 4, 8,
      {.kept = {"layout.schedule", "layout.order", "layout.shard_group", "layout.stage_layers", "train.micro_batch"}});
  EXPECT_FALSE(layouts.empty());
  for (const config::Config& one : layouts) {
    EXPECT_EQ(one.layout.schedule, config.layout.schedule);
    EXPECT_EQ(one.layout.order, config.layout.order);
    EXPECT_EQ(one.layout.sharding, config.layout.sharding);
    EXPECT_EQ(one.layout.shard_group, 2);
    EXPECT_EQ(one.layout.stage_layers, config.layout.stage_layers);
    EXPECT_EQ(one.layout.pipeline, 2);
    EXPECT_EQ(one.train.micro_batch, 0);
  }
}

TEST(LegalLayouts, KeepOnlyWhatTheLimitsAllow) {
  const auto small = [](const config::Config& one) { return one.layout.tensor * one.layout.pipeline <= 4; };
  const Layouts all = legal_layouts(four_layers_of_48(), 8, 4, 8);
  const Layouts allowed = legal_layouts(four_layers_of_48(), 8, 4, 8, {.allows = small});
  EXPECT_LT(allowed.size(), all.size());
  EXPECT_TRUE(allowed == only(all, small));
}

// The samples of a micro-batch depend on the data-parallel ranks if micro_batch = 0.
TEST(BestLayouts, KeptKeysHaveTheirOwnPredictions) {
  config::Config config = four_layers_of_48();
  config.train.micro_batch = 0;
  const Target target{.machine = small_machine(), .software = {}, .devices = 8};
  const BestLayouts best = best_layouts(config, target, {.count = 1000, .limits = {.kept = {"train.micro_batch"}}});
  EXPECT_EQ(best.kept, std::vector<std::string>{"train.micro_batch=0"});
  std::set<int64_t> data_ranks;
  for (const Change& one : best.layouts) {
    EXPECT_EQ(one.prediction.step_seconds, predict(one.config, target).step_seconds);
    data_ranks.insert(8 / one.config.layout.tensor / one.config.layout.pipeline);
  }
  EXPECT_GT(data_ranks.size(), 2);
}

TEST(BestLayouts, NameTheLimitsThatNoLayoutHolds) {
  config::Config config = four_layers_of_48();
  config.layout.tensor = 4;
  const Target target{.machine = small_machine(), .software = {}, .devices = 8};
  try {
    best_layouts(config, target,
                 {.limits = {.kept = {"layout.tensor"},
                             .allows = [](const config::Config& one) { return one.layout.tensor <= 2; },
                             .text = "tensor <= 2"}});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code, ExitCode::infeasible);
    EXPECT_EQ(std::string(error.what()),
              "no layout of this model with layout.tensor=4, tensor <= 2 divides train.global_batch = 8 among 8 "
              "devices; leave a setting or a limit out, or use other --devices");
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

// A graph network with 32 graphs in a step.
config::Config small_graph_network(const std::string& norm, const std::string& outputs) {
  return config::parse(
      "[model]\nfamily = \"gnn\"\nconv = \"painn\"\nlayers = 4\nwidth = 32\nnorm = \"" + norm + "\"\n" + outputs +
          "[data]\ntrain = [\"unread\"]\naverage_atoms = 20.0\naverage_edges = 200.0\nmost_atoms = 40\n"
          "most_edges = 500\n[train]\nglobal_batch = 32\nsteps = 3\n[optimizer]\nlearning_rate = 1e-3\n"
          "[checkpoint]\nfolder = \"unused\"\n",
      "graphs.toml", models::planned_families(), {});
}

TEST(LegalLayouts, TakeAStepOfBatchNormAsOneMicroBatch) {
  const std::string energy = "[[model.outputs]]\nname = \"energy\"\n";
  const std::vector<config::Config> layouts = legal_layouts(small_graph_network("batch", energy), 4, 4, 1);
  std::set<int64_t> pipelines;
  for (const config::Config& config : layouts) {
    pipelines.insert(config.layout.pipeline);
    EXPECT_EQ(config.train.micro_batch, 8 * config.layout.pipeline);
    EXPECT_EQ(config.train.recompute, config::Recompute::none);
  }
  EXPECT_EQ(pipelines, (std::set<int64_t>{1, 2, 4}));
  EXPECT_GT(legal_layouts(small_graph_network("layer", energy), 4, 4, 1).size(), 2 * layouts.size());
  config::Config several = small_graph_network("batch", energy);
  several.train.micro_batch = 4;
  EXPECT_THROW(planned_run(several, {.machine = small_machine(), .software = {}, .devices = 4}), UserError);
}

TEST(LegalLayouts, RecomputeNothingThatForcesNeed) {
  const std::string forces =
      "[[model.outputs]]\nname = \"energy\"\n[[model.outputs]]\nname = \"forces\"\nderivative_of = \"energy\"\n";
  const std::vector<config::Config> layouts = legal_layouts(small_graph_network("none", forces), 4, 4, 1);
  EXPECT_FALSE(layouts.empty());
  for (const config::Config& config : layouts) EXPECT_EQ(config.train.recompute, config::Recompute::none);
}

}  // namespace
}  // namespace terrace::plan
