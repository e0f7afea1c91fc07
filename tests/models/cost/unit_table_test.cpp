// Compares the unit table of a GPT with the closed forms of the whole model.
#include "terrace/models/gpt/cost/unit_table.h"

#include <gtest/gtest.h>

#include <utility>

#include "terrace/base/error.h"
#include "terrace/models/gpt/cost/cost.h"

namespace terrace::models {
namespace {

using schedule::UnitRow;
using schedule::UnitTable;

// A model like GPT-2 or like Llama, with three groups of keys and values for six heads.
models::gpt::ModelConfig config_of(bool llama) {
  models::gpt::ModelConfig config;
  config.layers = 3;
  config.width = 48;
  config.heads = 6;
  config.kv_heads = llama ? 3 : 6;
  config.head_dim = 8;
  config.ffn_width = 132;
  config.sequence = 20;
  config.vocabulary = 61;
  config.vocabulary_multiple = 8;
  if (llama) {
    config.positions = models::gpt::Positions::rotary;
    config.norm = models::gpt::Norm::rmsnorm;
    config.activation = models::gpt::Activation::swiglu;
    config.tied_head = config.bias = false;
  }
  return config;
}

// On a GPU attention to documents has a mask of all pairs of tokens of each sample, and one to a window a mask of one
// sample's where torch's flash attention does not take the window.
TEST(UnitTableOfAGpt, CountsTheMasksOfAttentionOnAGpu) {
  models::gpt::ModelConfig plain = config_of(true), windows = plain;
  windows.window = 6;
  const auto difference = [](const models::gpt::ModelConfig& config, int64_t element_bytes, bool documents, bool gpu) {
    const schedule::UnitTableOptions options{.samples = 5, .element_bytes = element_bytes, .on_gpu = gpu};
    const UnitRow with = gpt::unit_table(config, options, documents)[1];
    const UnitRow none = gpt::unit_table(config_of(true), options)[1];
    EXPECT_EQ(with.kept_bytes[1], none.kept_bytes[1]);
    EXPECT_EQ(with.kept_bytes[2], none.kept_bytes[2]);
    return std::pair(with.kept_bytes[0] - none.kept_bytes[0], with.temporary_bytes - none.temporary_bytes);
  };
  const auto pair = [](int64_t kept, int64_t temporary) { return std::pair(kept, temporary); };
  constexpr int64_t pairs = 20 * 20;
  EXPECT_EQ(difference(plain, 2, true, false), pair(0, 0));
  EXPECT_EQ(difference(plain, 2, false, true), pair(0, 0));
  EXPECT_EQ(difference(plain, 2, true, true), pair(0, 0));
  EXPECT_EQ(difference(plain, 4, true, true), pair(5 * pairs * 4, 5 * pairs * (4 + 2)));
  EXPECT_EQ(difference(windows, 2, true, true), pair(0, 0));
  EXPECT_EQ(difference(windows, 4, true, true), pair(5 * pairs * 4, 5 * pairs * (4 + 3)));
  EXPECT_EQ(difference(windows, 2, false, true), pair(0, 0));
  EXPECT_EQ(difference(windows, 4, false, true), pair(pairs * 4, pairs * (4 + 3)));
  models::gpt::ModelConfig drops = plain;
  drops.attention_dropout = 0.1;
  EXPECT_EQ(difference(drops, 2, true, true), pair(5 * pairs * 2, 5 * pairs * (2 + 2)));
  windows.window = 20;
  EXPECT_EQ(difference(windows, 4, false, true), pair(0, 0));
}

TEST(UnitTableOfAGpt, ParametersAndFlopsEqualTheModel) {
  for (const bool llama : {false, true}) {
    const models::gpt::ModelConfig config = config_of(llama);
    const UnitTable table = gpt::unit_table(config, {.samples = 5});
    ASSERT_EQ(table.size(), 8u);
    EXPECT_EQ(schedule::elements(table), gpt::parameter_count(config));
    EXPECT_DOUBLE_EQ(schedule::counted_flops(table), gpt::model_flops(config, 5, gpt::AttentionCount::full));
    double executed = 0;
    for (const UnitRow& row : table) {
      executed += row.forward_flops + row.input_gradient_flops + row.weight_gradient_flops;
    }
    EXPECT_DOUBLE_EQ(executed, gpt::model_flops(config, 5, gpt::AttentionCount::causal_half));
  }
}

TEST(UnitTableOfAGpt, CutsEachLayerIntoAttentionAndFeedForward) {
  const UnitTable table = gpt::unit_table(config_of(false), {});
  EXPECT_EQ(table[3].name, "blocks.1.attention");
  EXPECT_EQ(table[4].name, "blocks.1.ffn");
  EXPECT_EQ(table[3].layer, 1);
  EXPECT_EQ(table[4].layer, 1);
  EXPECT_EQ(table[3].parameters.front().name, "blocks.1.attention_norm.weight");
  EXPECT_EQ(table[4].parameters.back().name, "blocks.1.ffn.second.bias");
  EXPECT_EQ(table.front().layer, -1);
  EXPECT_EQ(table.back().layer, -1);
}

TEST(UnitTableOfAGpt, SaysThatATiedHeadReadsTheEmbedding) {
  EXPECT_EQ(gpt::unit_table(config_of(false), {}).back().reads_also, std::vector<int64_t>{0});
  EXPECT_TRUE(gpt::unit_table(config_of(true), {}).back().reads_also.empty());
}

// Products with weights have an input gradient and a weight gradient, which can be deferred; products of attention's
// scores have two input gradients.
TEST(UnitTableOfAGpt, SharesTheBackwardBetweenInputsAndWeights) {
  const models::gpt::ModelConfig config = config_of(true);
  const UnitTable table = gpt::unit_table(config, {});
  const double scores = gpt::attention_forward_flops(config, gpt::AttentionCount::causal_half) / 3;
  EXPECT_DOUBLE_EQ(table[1].input_gradient_flops - table[1].forward_flops, scores);
  EXPECT_DOUBLE_EQ(table[1].forward_flops - table[1].weight_gradient_flops, scores);
  EXPECT_DOUBLE_EQ(table[2].input_gradient_flops, table[2].forward_flops);
  EXPECT_DOUBLE_EQ(table[2].weight_gradient_flops, table[2].forward_flops);
  EXPECT_EQ(table.front().forward_flops, 0);
}

TEST(UnitTableOfAGpt, KeepsTheInputAloneOfARecomputedLayer) {
  const UnitTable table = gpt::unit_table(config_of(false), {.samples = 2, .element_bytes = 2});
  const auto full = static_cast<size_t>(config::Recompute::full), none = static_cast<size_t>(config::Recompute::none);
  EXPECT_EQ(table[1].kept_bytes[full], 2 * 20 * 48 * 2);
  EXPECT_EQ(table[1].output_bytes, 2 * 20 * 48 * 2);
  EXPECT_GT(table[1].kept_bytes[none], table[1].kept_bytes[static_cast<size_t>(config::Recompute::selective)]);
  EXPECT_EQ(table.back().kept_bytes[none], 0);
}

}  // namespace
}  // namespace terrace::models
