// Compares trainings at every layout: bit for bit where sums keep their order, by their error elsewhere.
#include <fmt/format.h>
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

TEST_F(AgainstPlain, EveryLayoutTrainsAGptToTheSameBits) { expect_equal({.model = "gpt2"}, all_layouts()); }

TEST_F(AgainstPlain, EveryLayoutTrainsLinearLayersToTheSameBits) {
  expect_equal({.model = "tied_stack"}, all_layouts());
}

TEST_F(AgainstPlain, LlamaInBf16WithAccumulationAndRecompute) {
  expect_equal(
      {.model = "llama", .precision = config::Precision::bf16, .recompute = config::Recompute::full, .micro_batch = 1},
      some_layouts());
}

TEST_F(AgainstPlain, QwenWithBiasesOrNormsOfQueriesAndKeys) {
  expect_equal({.model = "qwen2", .precision = config::Precision::bf16}, some_layouts());
  expect_equal({.model = "qwen3", .micro_batch = 1}, some_layouts());
}

TEST_F(AgainstPlain, MistralWithAWindow) {
  expect_equal({.model = "mistral", .recompute = config::Recompute::selective}, some_layouts());
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

// Each block is rounded with the draws of its place in the whole gradient, so gradients that are summed over all ranks
// at once do not depend on who keeps which part.
TEST(QuantizedGradients, SameBitsAtEverySharding) {
  for (const char* reduce : {"reduce_type=int8", "reduce_type=int4", "reduce_type=fp8"}) {
    for (const Training& training : {Training{.model = "gpt2", .micro_batch = 2},
                                     Training{.model = "llama", .precision = config::Precision::bf16}}) {
      std::map<int64_t, Outcome> plain;
      for (const Layout& layout : some_layouts()) {
        SCOPED_TRACE(training.model + " on " + layout.name() + " " + reduce);
        if (!plain.contains(layout.ranks)) plain[layout.ranks] = train(training, {layout.ranks, {reduce}});
        expect_same_bits(train(training, layout.with({reduce})), plain.at(layout.ranks));
      }
    }
  }
}

// Each rank keeps the errors of its whole gradient, also those of parts whose sums other ranks keep.
TEST(QuantizedGradients, SameBitsAtEveryShardingUnderErrorFeedback) {
  for (const char* reduce : {"reduce_type=int8", "reduce_type=int4", "reduce_type=fp8"}) {
    for (const Training& training : {Training{.model = "gpt2", .steps = 3, .micro_batch = 1},
                                     Training{.model = "llama", .precision = config::Precision::bf16}}) {
      std::map<int64_t, Outcome> plain;
      for (const Layout& some : some_layouts()) {
        const Layout layout = some.with({reduce, "error_feedback=true"});
        SCOPED_TRACE(training.model + " on " + layout.name());
        if (!plain.contains(layout.ranks)) {
          plain[layout.ranks] = train(training, {layout.ranks, {reduce, "error_feedback=true"}});
        }
        expect_same_bits(train(training, layout), plain.at(layout.ranks));
      }
    }
  }
}

TEST(ErrorFeedbackOfLayouts, SameBitsAtAnyPrefetch) {
  const Training training{.model = "gpt2", .steps = 3, .micro_batch = 1, .deterministic = false};
  for (const Layout& layout : feedback_layouts()) {
    const Outcome one = train(training, layout);
    for (const char* prefetch : {"prefetch=0", "prefetch=3"}) {
      SCOPED_TRACE(layout.name() + " " + prefetch);
      expect_same_bits(train(training, layout.with({prefetch})), one);
    }
  }
}

// The rounded weights that ranks compute with are those of the unrounded ones that the optimizer keeps, and blocks do
// not lie across parameters or ranks: so it does not matter whether weights are rounded where they are gathered for use
// or where they are published, on the ranks that own them or on others.
TEST(QuantizedWeights, SameBitsAtEverySharding) {
  for (const std::string type : {"int8", "int4", "fp8"}) {
    for (const Training& training : {Training{.model = "gpt2"}, Training{.model = "tied_stack"},
                                     Training{.model = "llama", .precision = config::Precision::bf16}}) {
      const std::string gather = "gather_type=" + type, update = "update_type=" + type;
      const Outcome published = train(training, {4, {"sharding=zero1", update}});
      for (const Layout& layout :
           {Layout{4, {"sharding=zero3", gather}}, Layout{4, {"sharding=zero3", gather, "prefetch=0"}},
            Layout{4, {"sharding=zero2", update}}, Layout{4, {"sharding=three_level", "ranks_per_node=2", update}}}) {
        SCOPED_TRACE(training.model + " on " + layout.name());
        expect_same_bits(train(training, layout), published);
      }
    }
  }
}

// On one node nothing is quantized. Parameters are aligned to blocks all the same, which changes the order in which the
// norm is summed; without clipping no weight depends on it.
TEST(NodeType, LeavesOneNodeUnquantizedBitForBit) {
  for (const Training& training : {Training{.model = "gpt2", .micro_batch = 2, .clip = 0},
                                   Training{.model = "llama", .precision = config::Precision::bf16, .clip = 0}}) {
    const Outcome plain = train(training, {4, {"sharding=ddp"}});
    for (const Layout& some : {Layout{4, {"sharding=ddp"}}, Layout{4, {"sharding=zero1"}},
                               Layout{4, {"sharding=zero3"}}, Layout{4, {"shard_gradients=2", "shard_optimizer=4"}}}) {
      const Layout layout = some.with({"gather_type=int8", "reduce_type=int4", "update_type=int8", "node_type=same"});
      SCOPED_TRACE(training.model + " on " + layout.name());
      const Outcome ours = train(training, layout);
      for (size_t step = 0; step < ours.norms.size(); ++step) EXPECT_FLOAT_EQ(ours.norms[step], plain.norms[step]);
      expect_same_tensors(ours, plain);
    }
  }
}

// Weights are rounded once, on their way between the nodes, whether they go on inside the nodes in one call or two.
TEST(NodeType, WeightsHaveTheBitsOfWeightsRoundedWhenPublished) {
  for (const Training& training : {Training{.model = "gpt2"}, Training{.model = "tied_stack"}}) {
    const Outcome published = train(training, {4, {"sharding=zero1", "update_type=int8"}});
    for (const Layout& some :
         {Layout{4, {"sharding=zero1"}}, Layout{4, {"sharding=zero1", "route=rails"}},
          Layout{4, {"sharding=three_level", "gather_type=int8"}}, Layout{4, {"sharding=zero2", "route=rails"}},
          Layout{4, {"sharding=zero3", "gather_type=int8", "route=rails"}}}) {
      const Layout layout = some.with({"ranks_per_node=2", "update_type=int8", "node_type=same"});
      SCOPED_TRACE(training.model + " on " + layout.name());
      expect_same_bits(train(training, layout), published);
    }
  }
}

// Gradients that are only rounded between the nodes are nearer to the plain run's than those that are rounded inside
// the nodes too, micro-batch by micro-batch.
TEST(NodeType, RoundsGradientsLess) {
  for (const char* route : {"route=flat", "route=rails"}) {
    const Training training{.model = "gpt2", .steps = 1, .micro_batch = 1, .deterministic = false};
    const Layout layout{4, {"shard_gradients=2", "shard_optimizer=4", "ranks_per_node=2", route}};
    const Outcome plain = train(training, layout);
    const auto distance = [&](const Layout& of) {
      double sum = 0;
      for (const auto& [name, gradient] : train(training, of).gradients) {
        sum += gradient.sub(plain.gradients.at(name)).square().sum().item<double>();
      }
      return std::sqrt(sum);
    };
    const Layout everywhere = layout.with({"reduce_type=int4"});
    // Inside and between the nodes sums of about as many values are rounded: without one of both the squares of the
    // errors are about half as large, so that the distance is about 0.71 of that with both.
    EXPECT_LT(distance(everywhere.with({"node_type=bf16"})), 0.8 * distance(everywhere));
    EXPECT_GT(distance(everywhere.with({"node_type=bf16"})), 0);
  }
}

TEST(QuantizedMovements, SameBitsAtAnyPrefetch) {
  for (const Layout& layout : {Layout{4, {"sharding=zero3", "gather_type=int8", "reduce_type=int4"}},
                               Layout{4,
                                      {"shard_weights=2", "shard_gradients=2", "shard_optimizer=4", "gather_type=int8",
                                       "update_type=int8", "reduce_type=int4"}}}) {
    const Training training{.model = "gpt2", .micro_batch = 2, .deterministic = false};
    const Outcome one = train(training, layout);
    for (const char* prefetch : {"prefetch=0", "prefetch=3"}) {
      SCOPED_TRACE(layout.name() + " " + prefetch);
      expect_same_bits(train(training, layout.with({prefetch})), one);
    }
  }
}

// A sum of rounded gradients, not a multiple of it, and no bias: the errors are independent, so the norm by which
// gradients are clipped grows by half of the square of their relative size. That is 0.18 for int4 and blocks of normal
// numbers (1.6%), more for these blocks with a few large values; with `ddp` the sums are rounded once more.
TEST(QuantizedGradients, NormIsNearThatOfThePlainRun) {
  for (const char* model : {"gpt2", "llama", "tied_stack"}) {
    for (const char* sharding : {"sharding=ddp", "sharding=zero2", "sharding=zero3"}) {
      const Training training{.model = model, .steps = 1, .deterministic = false};
      const double plain = train(training, {4, {sharding}}).norms.front();
      const double bound_of_int4 = sharding == std::string("sharding=ddp") ? 0.06 : 0.03;
      for (const auto& [reduce, bound] :
           {std::pair{"reduce_type=int8", 0.02}, {"reduce_type=fp8", 0.02}, {"reduce_type=int4", bound_of_int4}}) {
        SCOPED_TRACE(std::string(model) + " " + sharding + " " + reduce);
        EXPECT_NEAR(train(training, {4, {sharding, reduce}}).norms.front() / plain, 1.0, bound);
      }
    }
  }
}

// Errors of the micro-batches of a step cancel but for the last one, and so do those of steps: the norm of every step
// is nearer to the plain run's than the norm of gradients that are rounded at random.
TEST(QuantizedGradients, ErrorFeedbackKeepsTheNormOfThePlainRun) {
  for (const char* model : {"gpt2", "llama", "tied_stack"}) {
    for (const char* sharding : {"sharding=zero2", "sharding=zero3"}) {
      const Training training{.model = model, .steps = 6, .micro_batch = 1, .deterministic = false};
      const std::vector<double> plain = train(training, {4, {sharding}}).norms;
      const Layout quantized{4, {sharding, "reduce_type=int4"}};
      const std::vector<double> fed_back = train(training, quantized.with({"error_feedback=true"})).norms;
      const std::vector<double> at_random = train(training, quantized).norms;
      for (size_t step = 0; step < plain.size(); ++step) {
        SCOPED_TRACE(fmt::format("{} {}, step {}: {} times at random", model, sharding, step + 1,
                                 at_random[step] / plain[step]));
        EXPECT_NEAR(fed_back[step] / plain[step], 1.0, 0.02);
      }
    }
  }
}

TEST(Recompute, ChangesNoBit) {
  const Layout layout{2, {"sharding=zero3"}};
  const Outcome plain = train({.model = "gpt2"}, layout);
  for (const config::Recompute recompute : {config::Recompute::selective, config::Recompute::full}) {
    expect_same_bits(train({.model = "gpt2", .recompute = recompute}, layout), plain);
  }
}

// Two layers of the first stage and one of the second are recomputed, also with two chunks of a stage and tensor ranks.
TEST(Recompute, OfSomeLayersChangesNoBit) {
  for (std::vector<std::string> keys : {std::vector<std::string>{"pipeline=2", "schedule=zb-h1"},
                                        {"pipeline=2", "schedule=interleaved", "chunks=2"},
                                        {"tensor=2", "sequence_parallel=true"}}) {
    const Training plain{.model = "cut_gpt2_deep", .sequences = 4, .micro_batch = 1};
    Training some = plain;
    some.recompute = config::Recompute::full;
    const Outcome expected = train(plain, {2, keys});
    keys.emplace_back(keys.front() == "pipeline=2" ? "recompute_layers=[2, 1]" : "recompute_layers=4");
    expect_same_bits(train(some, {2, keys}), expected);
  }
}

TEST(WholeNumbers, ExactAtEveryLayout) {
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
