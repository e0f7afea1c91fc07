// Compares trainings of models with experts at many layouts with one rank's.
#include <gtest/gtest.h>

#include <numeric>

#include "terrace/models/gpt/planned_gpt.h"
#include "terrace/plan/planned_run.h"
#include "tests/parallel/accuracy.h"
#include "tests/parallel/bits.h"
#include "tests/parallel/count.h"

namespace terrace::parallel {
namespace {

using config::Recompute;

std::vector<Layout> layouts_of_experts() {
  const std::string tensor = "tensor=2", sequence = "sequence_parallel=true";
  return {{2, {"sharding=zero3"}},
          {3, {"sharding=zero2"}},
          {2, {tensor, sequence}},
          {4, {tensor, sequence, "sharding=zero3"}},
          {2, {"pipeline=2"}},
          {4, {"pipeline=2", tensor, sequence, "sharding=zero1"}},
          {2, {"context=2"}},
          {4, {"context=2", tensor, sequence, "sharding=zero2"}},
          {4, {"shard_gradients=2", "shard_optimizer=4"}}};
}

// Layouts whose ranks divide the experts, of which there are 6 or 12: inside tensor ranks, over these and data ranks,
// over context ranks, with all kinds of sharding, of which experts may need more or fewer movements than what is beside
// them.
std::vector<Layout> layouts_of_expert_ranks() {
  const std::string tensor = "tensor=2", sequence = "sequence_parallel=true", two = "experts=2", three = "experts=3";
  return {
      {2, {two}},
      {3, {three, "sharding=zero1"}},
      {2, {tensor, sequence, two}},
      {4, {tensor, sequence, two, "sharding=zero3"}},
      {4, {tensor, sequence, "experts=2", "sharding=zero2", "pipeline=2"}},
      {4, {two, "sharding=zero3"}},
      {4, {two, "shard_gradients=2", "shard_optimizer=4"}},
      {6, {"experts=6", "sharding=zero2"}},
      {6, {tensor, sequence, three, "sharding=zero1"}},
      {4, {"context=2", two, "sharding=zero3"}},
      {8, {"context=2", tensor, sequence, "experts=2", "shard_weights=2", "shard_gradients=2", "shard_optimizer=4"}},
      {4, {"pipeline=2", two, "schedule=zb-h1"}},
      {4, {two, "sharding=zero3", "ranks_per_node=2", "route=rails"}}};
}

void expect_experts(const Training& training, const std::vector<Layout>& layouts, int64_t draws = 6) {
  Accuracy accuracy(nn::scalar_type(training.precision));
  accuracy.add(training, layouts, draws);
  accuracy.expect_as_accurate();
}

TEST(ExpertsParallel, SoftmaxWithLosses) { expect_experts({.model = "cut_experts"}, layouts_of_experts()); }

TEST(ExpertsParallel, SharedExpertsAndADenseLayer) {
  expect_experts({.model = "cut_experts_shared", .micro_batch = 2}, layouts_of_experts());
}

TEST(ExpertsParallel, GroupsWithABias) {
  expect_experts({.model = "cut_experts_grouped", .micro_batch = 2}, layouts_of_experts());
}

// Layouts whose forward has one rank's bits choose as it does in any type.
TEST(ExpertsParallel, Bf16WhereTheForwardHasTheSameBits) {
  expect_experts({.model = "cut_experts", .precision = config::Precision::bf16},
                 {{2, {"sharding=zero3"}}, {2, {"pipeline=2", "sharding=zero1"}}, {3, {"sharding=zero2"}}}, 16);
}

TEST(ExpertRanks, SoftmaxWithLosses) { expect_experts({.model = "cut_experts"}, layouts_of_expert_ranks()); }

TEST(ExpertRanks, SharedExpertsWithRecompute) {
  expect_experts({.model = "cut_experts_shared", .recompute = Recompute::full, .micro_batch = 2},
                 layouts_of_expert_ranks());
}

TEST(ExpertRanks, GroupsWithABias) {
  expect_experts({.model = "cut_experts_grouped", .micro_batch = 1}, layouts_of_expert_ranks(), 3);
}

// Every token counts for each of its experts once, at every layout and with every recompute.
TEST(ExpertsParallel, LoadsAreThoseOfOneRank) {
  const Training training{.model = "cut_experts_grouped", .steps = 3, .micro_batch = 2};
  const Outcome one = train(training, {1, {}});
  const models::gpt::ModelConfig model = small_config(training.model);
  const double choices =
      static_cast<double>(training.sequences * small_sequence * model.experts.per_token * model.layers);
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    Training own = training;
    own.recompute = recompute;
    std::vector<Layout> layouts = layouts_of_experts();
    for (const Layout& layout : layouts_of_expert_ranks()) layouts.push_back(layout);
    for (const Layout& layout : layouts) {
      SCOPED_TRACE(layout.name());
      const Outcome outcome = train(own, layout);
      ASSERT_EQ(outcome.tallies.size(), one.tallies.size());
      for (size_t step = 0; step < one.tallies.size(); ++step) {
        const std::vector<double>&loads = outcome.tallies[step].at(0), &losses = outcome.tallies[step].at(1);
        EXPECT_EQ(loads, one.tallies[step].at(0));
        EXPECT_EQ(std::accumulate(loads.begin(), loads.end(), 0.0), choices);
        for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i] / one.tallies[step].at(1)[i], 1, 1e-5);
      }
      ASSERT_EQ(outcome.buffers.size(), static_cast<size_t>(model.layers));
      for (const auto& [name, bias] : outcome.buffers) {
        EXPECT_TRUE(bias.equal(one.buffers.at(name))) << name;
        EXPECT_GT(bias.abs().max().item<float>(), 0);
      }
    }
  }
}

// A rank sends the numbers of its rows, the rows whose experts are elsewhere with their weights, and brings results
// back; backward sends the same but the numbers.
TEST(ExpertTraffic, IsThatOfTheRowsThatMove) {
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    for (const config::Precision precision : {config::Precision::fp32, config::Precision::bf16}) {
      for (const Layout& layout :
           {Layout{3, {"experts=3"}}, Layout{2, {"tensor=2", "sequence_parallel=true", "experts=2"}},
            Layout{4, {"experts=2", "sharding=zero3"}}}) {
        SCOPED_TRACE(layout.name());
        const Training training{.model = "cut_experts", .precision = precision, .recompute = recompute, .steps = 1};
        const Outcome outcome = train(training, layout);
        const models::gpt::ModelConfig model = small_config(training.model);
        const int64_t ranks = layout_config(layout, true).experts, again = recompute == Recompute::full ? 1 : 0;
        const int64_t element = precision == config::Precision::fp32 ? 4 : 2;
        const int64_t counts = model.layers * (1 + again) * 8 * model.experts.number * (ranks - 1) / ranks;
        const int64_t each = (4 + 2 * again) * model.width * element + (2 + again) * 4;
        int64_t moved = 0;
        for (const auto& traffic : outcome.traffic) moved += counted(traffic.at("experts")).bytes - counts;
        EXPECT_EQ(moved % each, 0);
        // The rows whose experts are on another rank: with even loads (X - 1) / X of all.
        const int64_t all = model.layers * training.sequences * small_sequence * model.experts.per_token;
        EXPECT_NEAR(static_cast<double>(moved / each), static_cast<double>(all * (ranks - 1) / ranks),
                    0.1 * static_cast<double>(all));
      }
    }
  }
}

// The plan's flat buffers, cut over the ranks that it says, are what ranks hold.
TEST(ExpertMemory, StatesAreThoseOfThePlan) {
  for (const config::Precision precision : {config::Precision::fp32, config::Precision::bf16}) {
    for (const Layout& layout : layouts_of_expert_ranks()) {
      SCOPED_TRACE(layout.name());
      const Training training{.model = "cut_experts_grouped", .precision = precision, .steps = 1};
      const Outcome outcome = train(training, layout);
      config::Config config = config::config_of(models::gpt::planned_family());
      config.layout = layout_config(layout, false);
      config.train.global_batch = layout.ranks / config.layout.ranks_of_samples();
      config.train.precision = precision;
      config.model.get<models::gpt::ModelConfig>() = small_config(training.model);
      const auto table = std::make_shared<const plan::PlannedTable>(small_table(training), config.layout);
      const auto partition =
          std::make_shared<const schedule::Partition>(schedule::partition(table->rows, config.layout));
      const plan::PlannedRun run(config, layout.ranks, layout.ranks, {table, partition});
      for (int64_t rank = 0; rank < layout.ranks; ++rank) {
        const int64_t stage = run.mesh.coordinate(rank, "pipeline");
        const auto padded = [&](int64_t bytes) {
          return [bytes](const plan::PlannedFlat& flat) {
            return flat.padded * (bytes > 0 ? bytes : config::element_bytes(flat.precision));
          };
        };
        const StateBytes& held = outcome.bytes[static_cast<size_t>(rank)];
        EXPECT_EQ(static_cast<double>(held.weights), run.stage_sum(stage, &mesh::ShardSizes::weights, padded(0)));
        EXPECT_EQ(static_cast<double>(held.gradients), run.stage_sum(stage, &mesh::ShardSizes::gradients, padded(4)));
      }
    }
  }
}

// A forward that is made again takes the choice that was made.
TEST(ExpertsParallel, RecomputeChangesNoBit) {
  for (const char* model : {"cut_experts", "cut_experts_shared", "cut_experts_grouped"}) {
    Training training{.model = model, .precision = config::Precision::bf16, .micro_batch = 3};
    for (const Layout& layout : {Layout{1, {}}, Layout{2, {"tensor=2", "sequence_parallel=true"}}}) {
      training.recompute = Recompute::none;
      const Outcome kept = train(training, layout);
      training.recompute = Recompute::full;
      expect_same_bits(train(training, layout), kept);
    }
  }
}

}  // namespace
}  // namespace terrace::parallel
