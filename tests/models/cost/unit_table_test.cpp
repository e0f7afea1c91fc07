// Compares the unit table of a GPT with the closed forms of the whole model.
#include "terrace/models/gpt/cost/unit_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <random>
#include <utility>

#include "terrace/base/error.h"
#include "tests/models/gpt_formulas.h"

namespace terrace::models {
namespace {

using schedule::UnitRow;
using schedule::UnitTable;
using schedule::UnitTableOptions;

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

TEST(UnitTableOfAGpt, GivesOnlyLocalLayersAWindow) {
  models::gpt::ModelConfig config = config_of(true);
  config.layers = 5;
  config.window = 4;
  config.global_every = 2;
  const UnitTable table = gpt::unit_table(config, {});
  for (const int64_t layer : {0, 2, 4}) EXPECT_EQ(table[1 + 2 * layer].forward_flops, table[1].forward_flops);
  EXPECT_EQ(table[3].forward_flops, table[7].forward_flops);
  // 20 tokens see 20^2 / 2 pairs, and with a window of 4 only 4 (20 - 4/2); a pair has 4 FLOPs for each channel.
  EXPECT_DOUBLE_EQ(table[3].forward_flops - table[1].forward_flops,
                   4.0 * static_cast<double>(config.heads * config.head_dim) * (200 - 72));
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

// All figures of the rows beside operations, of models and options that are drawn.
TEST(UnitTableOfAGpt, EqualsTheClosedForms) {
  std::mt19937 draws(1);
  const auto one_of = [&](std::initializer_list<int64_t> values) { return values.begin()[draws() % values.size()]; };
  const auto coin = [&] { return draws() % 2 == 0; };
  for (int drawn = 0; drawn < 300; ++drawn) {
    gpt::ModelConfig config = config_of(coin());
    config.layers = one_of({1, 2, 3});
    config.heads = one_of({8, 16, 24});
    config.kv_heads = one_of({config.heads, 8, 4, 1});
    config.head_dim = one_of({8, 80, 264});
    config.sequence = one_of({64, 512, 2048});
    config.ffn_width = one_of({64, 176, 4096});
    config.vocabulary = one_of({61, 8192, 128256});
    config.window = one_of({0, 0, 16, 500});
    config.qk_norm = coin();
    config.qkv_bias = coin();
    config.bias = coin();
    config.dropout = coin() ? 0.1 : 0.0;
    config.global_every = one_of({0, 0, 2, 3});
    config.post_norms = coin();
    config.scaled_embeddings = coin();
    if (is_gated(config.activation) && coin()) config.activation = gpt::Activation::geglu;
    const UnitTableOptions options{.samples = one_of({1, 2, 5}),
                                   .element_bytes = one_of({2, 4}),
                                   .tensor_ranks = one_of({1, 2, 8}),
                                   .sequence_parallel = coin(),
                                   .on_gpu = coin()};
    SCOPED_TRACE(fmt::format("draw {}", drawn));
    const bool documents = coin();
    const UnitTable table = gpt::unit_table(config, options, documents);
    const UnitRow &embedding = table.front(), &attention = table[1], &ffn = table[2], &head = table.back();
    const gpt::MaskBytes mask = gpt::mask_bytes(config, options, documents);
    for (const auto mode : {config::Recompute::none, config::Recompute::selective, config::Recompute::full}) {
      const auto i = static_cast<size_t>(mode);
      const int64_t kept_mask = mode == config::Recompute::none ? mask.kept : 0;
      EXPECT_EQ(attention.kept_bytes[i], gpt::attention_kept_bytes(config, options, mode) + kept_mask);
      EXPECT_EQ(ffn.kept_bytes[i], gpt::ffn_kept_bytes(config, options, mode));
      EXPECT_EQ(embedding.kept_bytes[i], gpt::embedding_kept_bytes(config, options));
    }
    EXPECT_EQ(attention.temporary_bytes, gpt::attention_temporary_bytes(config, options) + mask.kept + mask.temporary);
    EXPECT_EQ(ffn.temporary_bytes, gpt::ffn_temporary_bytes(config, options));
    EXPECT_EQ(head.temporary_bytes, gpt::head_temporary_bytes(config, options));
    EXPECT_EQ(attention.deferred_bytes, gpt::attention_deferred_bytes(config, options));
    EXPECT_EQ(ffn.deferred_bytes, gpt::ffn_deferred_bytes(config, options));
    EXPECT_EQ(embedding.deferred_bytes, gpt::embedding_deferred_bytes(config, options));
    for (const UnitRow* row : {&embedding, &attention, &ffn}) {
      EXPECT_EQ(row->output_bytes, gpt::hidden_bytes(config, options));
    }
    EXPECT_EQ(schedule::elements(table), gpt::parameter_count(config));
    EXPECT_DOUBLE_EQ(schedule::counted_flops(table),
                     gpt::model_flops(config, options.samples, gpt::AttentionCount::full));
  }
}

}  // namespace
}  // namespace terrace::models
