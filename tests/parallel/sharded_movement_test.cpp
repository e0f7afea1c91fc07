// Checks sharded data parallelism with a format of bytes with scales and a route of two hops (ShardingOptions).
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/parallel/byte_format.h"
#include "tests/parallel/training.h"

namespace terrace::parallel {
namespace {

// One step of the stack of linear layers on integers, whose first gradients are exact in any order of summation.
struct Step {
  std::map<std::string, at::Tensor> gradients;
  std::vector<at::Tensor> weights;                             // of the first segment after the step, by rank
  std::map<std::string, std::map<comm::Kind, Count>> traffic;  // on the first rank, by group
};

Step step_with(const Layout& layout, const std::function<void(ShardingOptions&)>& change) {
  at::set_num_threads(1);
  const Training training{.model = "whole_stack", .deterministic = false};
  const config::LayoutConfig config = layout_config(layout, training.deterministic);
  Step outcome;
  outcome.weights.resize(static_cast<size_t>(layout.ranks));
  std::mutex mutex;
  comm::run_threads(layout.ranks, {.timeout_seconds = 60, .check_calls = true}, [&](comm::World& world) {
    const auto model = small_model(training, at::kFloat);
    ShardingOptions options = sharding_options(config, at::kFloat);
    options.poison = true;
    change(options);
    train::RankModel own(*model, world, small_layout(training, config, world.size()), config_of(training, config),
                         options);
    CutModel& cut = own.cut;
    const auto counted_groups = {cut.groups.gather.get(), cut.groups.reduce.get(), cut.groups.update.get()};
    for (comm::Comm* group : counted_groups) group->reset_traffic();
    const int64_t share = training.sequences / layout.ranks;
    own.step.run({batch_of(1, world.rank() * share, share)}, {.seed = 5, .step = 1}, learning_rate,
                 [&](const train::StepSums&) {
                   const std::lock_guard lock(mutex);
                   place_own_elements(
                       model->parameters(), own.optimizer, [](const auto& state) { return state.shard.gradient; },
                       outcome.gradients);
                   return 1.0;
                 });
    cut.sharded.finish_update();
    outcome.weights[static_cast<size_t>(world.rank())] = cut.shards.front().value.clone();
    if (world.rank() > 0) return;
    for (const comm::Comm* group : counted_groups) {
      for (const comm::Kind kind : used_kinds) outcome.traffic[group->group().name][kind] = counted(*group, kind);
    }
  });
  return outcome;
}

void expect_equal_gradients(const Step& step, const Step& expected) {
  for (const auto& [name, gradient] : expected.gradients) {
    EXPECT_GT(gradient.abs().max().item<float>(), 0) << name;
    EXPECT_TRUE(at::equal(step.gradients.at(name), gradient)) << name;
  }
}

// Bytes with scales for a transfer of fp32 values: 1 byte per value and 4 bytes per block of 64 values.
Count with_scales(const Count& fp32) { return {fp32.calls, fp32.bytes / 4 * (64 + 4) / 64}; }

TEST(Sharded, GathersWeightsAsBytesWithScales) {
  for (const Layout& layout : {Layout{2, {"sharding=zero3"}}, Layout{3, {"sharding=zero3"}},
                               Layout{4, {"shard_weights=2", "shard_gradients=4", "shard_optimizer=4"}}}) {
    SCOPED_TRACE(layout.name());
    const Step plain = step_with(layout, [](ShardingOptions&) {});
    const Step bytes = step_with(layout, [](ShardingOptions& options) { options.formats.gather = byte_format(64); });
    expect_equal_gradients(bytes, plain);  // all weights are 0 or 1 in the first step
    auto expected = plain.traffic;
    Count& gathers = expected.at("shard_weights").at(comm::Kind::all_gather);
    ASSERT_GT(gathers.bytes, 0);
    gathers = with_scales(gathers);
    EXPECT_EQ(bytes.traffic, expected);
  }
}

TEST(Sharded, PublishesUpdatedWeightsAsBytesWithScales) {
  const Layout layout{3, {"sharding=zero1"}};
  const Step plain = step_with(layout, [](ShardingOptions&) {});
  const Step bytes = step_with(layout, [](ShardingOptions& options) { options.formats.update = byte_format(64); });
  auto expected = plain.traffic;
  Count& gathers = expected.at("update").at(comm::Kind::all_gather);
  ASSERT_GT(gathers.bytes, 0);
  gathers = with_scales(gathers);
  EXPECT_EQ(bytes.traffic, expected);
}

// The norm of a step in which one rank's gradients are not finite, on each rank.
TEST(Sharded, NoticesAGradientThatIsNotFiniteOnAllRanks) {
  at::set_num_threads(1);
  const Training training{.model = "stack", .deterministic = false};
  for (const char* sharding : {"sharding=ddp", "sharding=zero1", "sharding=zero3"}) {
    for (const char* reduce : {"reduce_type=int8", "reduce_type=int4", "reduce_type=fp8"}) {
      const config::LayoutConfig config = layout_config({3, {sharding, reduce}}, false);
      comm::run_threads(3, {.timeout_seconds = 60, .check_calls = true}, [&](comm::World& world) {
        const auto model = small_model(training, at::kFloat);
        train::RankModel own(*model, world, small_layout(training, config, 3), config_of(training, config),
                             sharding_options(config, at::kFloat));
        for (const double scale : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
          const models::Pass pass{.seed = 5, .step = 1, .gradient_scales = {world.rank() == 1 ? scale : 1.0}};
          double norm = 0;
          own.step.run({batch_of(1, world.rank(), 1)}, pass, 0.0, [&](const train::StepSums& sums) {
            norm = sums.gradients.norm;
            return 0.0;
          });
          EXPECT_FALSE(std::isfinite(norm)) << sharding << " " << reduce << " on rank " << world.rank();
        }
      });
    }
  }
}

// Weights are sharded over pairs and gradients over two pairs, so that two hops leave each rank its part.
const Layout two_pairs{4, {"shard_weights=2", "shard_gradients=4", "shard_optimizer=4"}};

Route through_pairs(schedule::Movement movement, DataGroups& groups) {
  if (movement == schedule::Movement::reduce) return {*groups.gather, *groups.update};
  return movement == schedule::Movement::publish ? *groups.update : *groups.gather;
}

TEST(Sharded, ReducesGradientsOverTwoHops) {
  const Step one_hop = step_with(two_pairs, [](ShardingOptions&) {});
  const Step two_hops = step_with(two_pairs, [](ShardingOptions& options) { options.route = through_pairs; });
  expect_equal_gradients(two_hops, one_hop);
  const Count reductions = one_hop.traffic.at("shard_gradients").at(comm::Kind::reduce_scatter);
  const int64_t elements = reductions.bytes / 3;  // a rank sends three quarters of the elements, 4 bytes each
  EXPECT_EQ(two_hops.traffic.at("shard_gradients").at(comm::Kind::reduce_scatter), Count{});
  EXPECT_EQ(two_hops.traffic.at("shard_weights").at(comm::Kind::reduce_scatter),
            (Count{reductions.calls, elements / 2 * 4}));
  EXPECT_EQ(two_hops.traffic.at("update").at(comm::Kind::reduce_scatter), (Count{reductions.calls, elements / 4 * 4}));

  const Step bytes = step_with(two_pairs, [](ShardingOptions& options) {
    options.route = through_pairs;
    options.formats.reduce = byte_format(64);
  });
  for (const char* group : {"shard_weights", "update"}) {
    EXPECT_EQ(bytes.traffic.at(group).at(comm::Kind::all_to_all),
              with_scales(two_hops.traffic.at(group).at(comm::Kind::reduce_scatter)));
    EXPECT_EQ(bytes.traffic.at(group).at(comm::Kind::reduce_scatter), Count{});
  }
}

}  // namespace
}  // namespace terrace::parallel
