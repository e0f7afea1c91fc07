// Compares trainings of models with experts at many layouts with one rank's.
#include <gtest/gtest.h>

#include "tests/parallel/accuracy.h"
#include "tests/parallel/bits.h"

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
    for (const Layout& layout : layouts_of_experts()) {
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
