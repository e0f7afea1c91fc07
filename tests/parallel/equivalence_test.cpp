// Compares trainings at every layout: to the last bit where sums keep their order, by their error elsewhere.
#include <gtest/gtest.h>

#include "tests/parallel/bits.h"
#include "tests/parallel/exact.h"
#include "tests/pytorch/judge.h"

namespace terrace::parallel {
namespace {

// Plain data parallelism with the same number of ranks, trained once for each training and number of ranks.
class AgainstPlain : public ::testing::Test {
 protected:
  void expect_equal(const Training& training, const std::vector<Layout>& layouts) {
    std::map<int64_t, Outcome> plain;
    for (const Layout& layout : layouts) {
      SCOPED_TRACE(training.model + " on " + layout.name());
      if (!plain.contains(layout.ranks)) plain[layout.ranks] = train(training, {layout.ranks, {"sharding=ddp"}});
      expect_same_bits(train(training, layout), plain.at(layout.ranks));
    }
  }
};

TEST_F(AgainstPlain, EveryLayoutTrainsAGptToTheLastBit) { expect_equal({.model = "gpt2"}, all_layouts()); }

TEST_F(AgainstPlain, EveryLayoutTrainsAStackOfLinearLayersToTheLastBit) {
  expect_equal({.model = "tied_stack"}, all_layouts());
}

TEST_F(AgainstPlain, LlamaInBf16WithAccumulationAndRecompute) {
  expect_equal(
      {.model = "llama", .precision = config::Precision::bf16, .recompute = config::Recompute::full, .micro_batch = 1},
      some_layouts());
}

TEST_F(AgainstPlain, GptInBf16) {
  expect_equal({.model = "gpt2", .precision = config::Precision::bf16}, some_layouts());
}

TEST_F(AgainstPlain, GptWithAccumulation) { expect_equal({.model = "gpt2", .micro_batch = 1}, some_layouts()); }

TEST_F(AgainstPlain, GptWithRecomputedAttention) {
  expect_equal({.model = "gpt2", .recompute = config::Recompute::selective}, some_layouts());
}

// Without `deterministic`, layouts in which a single reduction sums over all ranks have the same bits too.
TEST_F(AgainstPlain, OneSumOverAllRanksNeedsNoSetting) {
  std::vector<Layout> layouts;
  for (const int64_t ranks : {2, 3, 4}) {
    for (const char* sharding : {"sharding=zero1", "sharding=zero2", "sharding=zero3"})
      layouts.push_back({ranks, {sharding}});
  }
  expect_equal({.model = "gpt2", .deterministic = false}, layouts);
}

TEST(Recompute, ChangesNoBit) {
  const Layout layout{2, {"sharding=zero3"}};
  const Outcome plain = train({.model = "gpt2"}, layout);
  for (const config::Recompute recompute : {config::Recompute::selective, config::Recompute::full}) {
    expect_same_bits(train({.model = "gpt2", .recompute = recompute}, layout), plain);
  }
}

TEST(WholeNumbers, AreExactAtEveryLayout) {
  const Training training{.model = "whole_stack", .steps = 1, .micro_batch = 1, .clip = 0, .deterministic = false};
  const Outcome one = train(training, {1, {}});
  EXPECT_GT(one.norms.front(), 0);
  for (const Layout& layout : all_layouts()) {
    SCOPED_TRACE(layout.name());
    expect_same_bits(train(training, layout), one);
  }
}

// With sums in another order, the distance from a run in double precision is at most twice the error of one rank.
TEST(ByError, EveryLayoutIsAsAccurateAsOneRank) {
  for (const char* model : {"gpt2", "llama", "stack"}) {
    Training training{.model = model, .steps = 1, .deterministic = false};
    const Outcome one = train(training, {1, {}});
    const Outcome exact = exact_step(training);
    training.micro_batch = 1;
    testing::ErrorTally tally(at::kFloat);
    for (const Layout& layout : all_layouts()) {
      const Outcome ours = train(training, layout);
      for (const auto& [name, tensor] : exact.gradients) {
        tally.add(std::string(model) + " " + name, ours.gradients.at(name), one.gradients.at(name), tensor);
      }
    }
    tally.expect_as_accurate();
  }
}

}  // namespace
}  // namespace terrace::parallel
