// Compares models on tensor ranks with one rank: exactly for integers, by their error otherwise.
#include <gtest/gtest.h>

#include "tests/parallel/accuracy.h"
#include "tests/parallel/bits.h"

namespace terrace::parallel {
namespace {

void expect_tensors(const Training& training, const std::vector<int64_t>& tensors, int64_t draws = 8) {
  std::vector<Layout> layouts;
  for (const int64_t tensor : tensors) {
    for (const Layout& layout : tensor_layouts(tensor)) layouts.push_back(layout);
  }
  Accuracy accuracy(nn::scalar_type(training.precision));
  accuracy.add(training, layouts, draws);
  accuracy.expect_as_accurate();
}

// cut_gpt2 has dropout; the results agree only if the same elements are dropped at every layout.
TEST(TensorParallel, GptWithDropout) { expect_tensors({.model = "cut_gpt2"}, {2, 3, 4}); }

TEST(TensorParallel, GptInBf16WithAccumulationAndRecompute) {
  expect_tensors({.model = "cut_gpt2",
                  .precision = config::Precision::bf16,
                  .recompute = config::Recompute::full,
                  .micro_batch = 2},
                 {2, 4}, 40);
}

TEST(TensorParallel, GptWithTheErrorFunction) { expect_tensors({.model = "cut_gpt2_erf"}, {2}); }

TEST(TensorParallel, Llama) { expect_tensors({.model = "cut_llama"}, {2, 3}); }

TEST(TensorParallel, LlamaWithRecomputedAttention) {
  expect_tensors({.model = "cut_llama", .recompute = config::Recompute::selective}, {2});
}

TEST(TensorParallel, FewerKeysAndValuesThanRanks) { expect_tensors({.model = "cut_llama_sharing"}, {2, 4}); }

// Only queries, keys and values have biases; with four ranks, two hold the bias of the same key and value.
TEST(TensorParallel, BiasesOfQueriesKeysAndValues) { expect_tensors({.model = "cut_qwen2_sharing"}, {2, 4}); }

// Every rank has the weights of the norms and the gradients that its heads give, with and without keys of its own.
TEST(TensorParallel, NormsOfQueriesAndKeys) {
  expect_tensors({.model = "cut_qwen3"}, {2, 3});
  expect_tensors({.model = "cut_qwen3_sharing"}, {2, 4});
}

TEST(TensorParallel, Windows) { expect_tensors({.model = "cut_mistral"}, {2, 3}); }

// Norms behind branches, gates by GELU, scaled embeddings, and two kinds of layers.
TEST(TensorParallel, Gemma3) { expect_tensors({.model = "cut_gemma3"}, {2, 3}); }

TEST(TensorParallel, NormsOfQueriesAndKeysInBf16WithRecompute) {
  expect_tensors({.model = "cut_qwen3",
                  .precision = config::Precision::bf16,
                  .recompute = config::Recompute::selective,
                  .micro_batch = 2},
                 {2}, 20);
}

// The first matrix of the feed-forward has eight outputs per input, and a rank's half of it four.
TEST(TensorParallel, ACutWeightComputesWithTheKernelsOfTheWhole) {
  models::gpt::ModelConfig config = small_config("cut_gpt2");
  config.width = 16;
  config.ffn_width = 8 * config.width;
  ops::KernelChoice kernels;
  kernels.products[ops::WeightClass::tall] = ops::ProductChoice::all(ops::Products::torch);
  const auto choice_of = [&](at::IntArrayRef shape) { return kernels.products[ops::weight_class_of(shape)]; };
  comm::run_threads(2, {}, [&](comm::World& world) {
    const auto model = models::gpt::build_model(config, {.kernels = kernels, .allocate = false});
    const mesh::Mesh mesh = schedule::mesh_of(layout_config({2, {"tensor=2"}}, false), 2, 2);
    const TensorParallel tensor(*model, world, mesh, false);
    int64_t differently_by_part = 0;
    for (const nn::Parameter* parameter : model->parameters()) {
      EXPECT_EQ(parameter->products, choice_of(parameter->mark.global_shape)) << parameter->name;
      if (parameter->value.dim() > 1) differently_by_part += parameter->products != choice_of(parameter->value.sizes());
    }
    EXPECT_EQ(differently_by_part, config.layers);
  });
}

TEST(TensorParallel, WholeNumbersAreExact) {
  const Training training{.model = "cut_whole_stack", .steps = 1, .clip = 0, .deterministic = false};
  const Outcome one = train(training, {1, {}});
  EXPECT_GT(one.norms.front(), 0);
  for (const Layout& layout : std::vector<Layout>{{2, {"tensor=2"}},
                                                  {3, {"tensor=3"}},
                                                  {4, {"tensor=4"}},
                                                  {8, {"tensor=2", "sharding=zero3"}},
                                                  {6, {"tensor=3", "sharding=zero1"}},
                                                  {8, {"tensor=4", "sharding=zero2"}}}) {
    SCOPED_TRACE(layout.name());
    const Outcome ours = train(training, layout);
    EXPECT_EQ(ours.losses, one.losses);
    EXPECT_EQ(ours.norms, one.norms);
    for (const auto& [name, tensor] : one.weights) {
      EXPECT_TRUE(ours.weights.at(name).equal(tensor)) << name;
      EXPECT_TRUE(ours.gradients.at(name).equal(one.gradients.at(name))) << name;
    }
  }
}

// With the same tensor parallelism, every sharding gives the bits of plain data parallelism.
TEST(TensorParallel, EveryShardingGivesTheSameBits) {
  for (const char* sequence : {"sequence_parallel=false", "sequence_parallel=true"}) {
    for (const char* model : {"cut_gpt2", "cut_qwen3"}) {
      const Training training{.model = model};
      const Outcome plain = train(training, {4, {"tensor=2", sequence, "sharding=ddp"}});
      for (const char* sharding : {"sharding=zero1", "sharding=zero2", "sharding=zero3", "sharding=node"}) {
        SCOPED_TRACE(std::string(model) + " " + sequence + " " + sharding);
        expect_same_bits(train(training, {4, {"tensor=2", sequence, sharding}}), plain);
      }
    }
  }
}

}  // namespace
}  // namespace terrace::parallel
