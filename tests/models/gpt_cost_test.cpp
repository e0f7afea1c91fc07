// Compares parameter counts and FLOPs with the models that are built, with published numbers and with the papers'
// formulas.
#include <gtest/gtest.h>

#include <filesystem>

#include "terrace/models/families.h"
#include "terrace/models/gpt/cost/unit_table.h"
#include "terrace/models/gpt/model.h"
#include "terrace/models/model.h"
#include "tests/models/gpt_formulas.h"
#include "tests/models/small_models.h"
#include "tests/paths.h"

namespace terrace::models {
namespace {

using gpt::AttentionCount;
using models::gpt::ModelConfig;

int64_t built_count(const ModelConfig& config) {
  int64_t count = 0;
  const auto model = gpt::build_model(config, {.device = at::kMeta});
  for (const nn::Parameter* parameter : model->parameters()) count += parameter->value.numel();
  return count;
}

ModelConfig gpt2(int64_t layers, int64_t width, int64_t heads) {
  ModelConfig config;
  config.layers = layers;
  config.width = width;
  config.heads = config.kv_heads = heads;
  config.head_dim = width / heads;
  config.ffn_width = 4 * width;
  config.sequence = 1024;
  config.vocabulary = 50257;
  config.vocabulary_multiple = 1;
  return config;
}

ModelConfig llama(int64_t layers, int64_t width, int64_t heads, int64_t kv_heads, int64_t ffn_width,
                  int64_t vocabulary) {
  ModelConfig config = gpt2(layers, width, heads);
  config.kv_heads = kv_heads;
  config.ffn_width = ffn_width;
  config.sequence = 2048;
  config.vocabulary = vocabulary;
  config.positions = models::gpt::Positions::rotary;
  config.norm = models::gpt::Norm::rmsnorm;
  config.activation = models::gpt::Activation::swiglu;
  config.bias = config.tied_head = false;
  return config;
}

// The models of arXiv 2312.12705: sequence 2048, the vocabulary of the logged runs.
ModelConfig frontier(int64_t layers, int64_t width, int64_t heads) {
  ModelConfig config = gpt2(layers, width, heads);
  config.sequence = 2048;
  config.vocabulary = 50688;
  return config;
}

TEST(GptCost, CountsAreThePublishedOnes) {
  ModelConfig llama_3_2_1b = llama(16, 2048, 32, 8, 8192, 128256);
  llama_3_2_1b.tied_head = true;
  ModelConfig qwen2_0_5b = llama(24, 896, 14, 2, 4864, 151936);
  qwen2_0_5b.tied_head = qwen2_0_5b.qkv_bias = true;
  ModelConfig qwen3_0_6b = llama(28, 1024, 16, 8, 3072, 151936);
  qwen3_0_6b.head_dim = 128;
  qwen3_0_6b.tied_head = qwen3_0_6b.qk_norm = true;
  ModelConfig mixtral = llama(32, 4096, 32, 8, 14336, 32000), qwen3_30b = llama(48, 2048, 32, 4, 6144, 151936);
  mixtral.experts = {.number = 8, .per_token = 2, .width = 14336};
  qwen3_30b.head_dim = 128;
  qwen3_30b.qk_norm = true;
  qwen3_30b.experts = {.number = 128, .per_token = 8, .width = 768};
  ModelConfig gemma3_1b = models::small_gemma3(llama(26, 1152, 4, 1, 6912, 262144));
  gemma3_1b.layers = 26;
  gemma3_1b.head_dim = 256;
  const std::pair<ModelConfig, int64_t> published[] = {{gpt2(12, 768, 12), 124'439'808},
                                                       {gpt2(24, 1024, 16), 354'823'168},
                                                       {gpt2(36, 1280, 20), 774'030'080},
                                                       {gpt2(48, 1600, 25), 1'557'611'200},
                                                       {llama_3_2_1b, 1'235'814'400},
                                                       {llama(22, 2048, 32, 4, 5632, 32000), 1'100'048'384},
                                                       {llama(32, 4096, 32, 8, 14336, 128256), 8'030'261'248},
                                                       {qwen2_0_5b, 494'032'768},
                                                       {qwen3_0_6b, 596'049'920},
                                                       {mixtral, 46'702'792'704},
                                                       {qwen3_30b, 30'532'122'624},
                                                       {llama(32, 3072, 32, 32, 8192, 32064), 3'821'079'552},  // Phi 3
                                                       {gemma3_1b, 999'885'952}};
  for (const auto& [config, count] : published) {
    EXPECT_EQ(gpt::parameter_count(config), count);
    EXPECT_EQ(built_count(config), count);
  }
}

// Mixtral is said to use 12.9B parameters for a token, Qwen3 30B-A3B 3.3B.
TEST(GptCost, ActiveParametersAreThePublishedOnes) {
  ModelConfig mixtral = llama(32, 4096, 32, 8, 14336, 32000);
  mixtral.experts = {.number = 8, .per_token = 2, .width = 14336};
  EXPECT_EQ(schedule::active_elements(gpt::unit_table(mixtral, {})), 12'879'925'248);
  ModelConfig qwen3 = llama(48, 2048, 32, 4, 6144, 151936);
  qwen3.head_dim = 128;
  qwen3.qk_norm = true;
  qwen3.experts = {.number = 128, .per_token = 8, .width = 768};
  EXPECT_EQ(schedule::active_elements(gpt::unit_table(qwen3, {})), 3'353'032'704);
}

TEST(GptCost, CountsFollowTheFormulaOfThePaper) {
  for (const auto& [layers, width, heads] : {std::tuple{48, 6144, 48}, {96, 12288, 96}, {128, 25600, 160}}) {
    const ModelConfig config = frontier(layers, width, heads);
    const int64_t l = layers, h = width, s = 2048, V = 50688;
    EXPECT_EQ(gpt::parameter_count(config), V * h + s * h + l * (12 * h * h + 13 * h) + 2 * h);
    EXPECT_EQ(built_count(config), gpt::parameter_count(config));
  }
}

TEST(GptCost, CountsAreRightForEveryOption) {
  for (const SmallModel& small : small_models()) {
    for (int options = 0; options < 128; ++options) {
      ModelConfig config = small.config;
      config.positions = options & 1 ? models::gpt::Positions::learned : models::gpt::Positions::rotary;
      config.norm = options & 2 ? models::gpt::Norm::layernorm : models::gpt::Norm::rmsnorm;
      config.activation = options & 4 ? models::gpt::Activation::gelu : models::gpt::Activation::swiglu;
      config.tied_head = options & 8;
      config.bias = options & 16;
      config.qkv_bias = options & 64;
      config.vocabulary_multiple = options & 32 ? 1 : 128;
      config.head_dim = 8;
      EXPECT_EQ(built_count(config), gpt::parameter_count(config)) << small.name << " " << options;
    }
  }
}

TEST(GptCost, EveryConfigurationInTheTreeIsCountedRight) {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(tests::source_dir() / "configs")) {
    if (entry.path().extension() != ".toml") continue;
    const config::Config whole = config::load(entry.path(), families());
    if (whole.family->name != "gpt") continue;
    const ModelConfig& config = gpt::model_of(whole);
    EXPECT_EQ(built_count(config), gpt::parameter_count(config)) << entry.path();
    ++found;
  }
  EXPECT_GT(found, 0);
}

// A logged run of the 175B model with tensor size 4 over 16 stages: a middle stage of six layers holds 2,718,480,384
// parameters on each die.
TEST(GptCost, MarksGiveTheShardsOfALoggedRun) {
  const auto model = gpt::build_model(frontier(96, 12288, 96), {.device = at::kMeta});
  int64_t held = 0;
  for (int64_t unit = 13; unit < 25; ++unit) {
    for (const nn::Parameter* parameter : model->unit_parameters(unit)) {
      const bool sharded = parameter->mark.kind == ParamMark::Kind::sharded;
      EXPECT_EQ(sharded ? parameter->value.size(parameter->mark.dim) % 4 : 0, 0) << parameter->name;
      held += parameter->value.numel() / (sharded ? 4 : 1);
    }
  }
  EXPECT_EQ(held, 2'718'480'384);
}

TEST(GptCost, FlopsFollowTheFormulaOfThePaper) {
  for (const auto& [layers, width, heads] : {std::tuple{48, 6144, 48}, {96, 12288, 96}, {128, 25600, 160}}) {
    const ModelConfig config = frontier(layers, width, heads);
    const double l = layers, h = width, s = 2048, V = 50688, B = 640;
    const auto formula = [&](double k) { return 24 * k * B * s * l * h * h * (1 + s / (6 * h)) + 6 * B * s * h * V; };
    const double model = gpt::model_flops(config, 640, AttentionCount::full);
    EXPECT_NEAR(model, formula(3), 1e-12 * model);
    EXPECT_EQ(gpt::hardware_flops(config, 640, AttentionCount::full, config::Recompute::none), model);
    EXPECT_NEAR(gpt::hardware_flops(config, 640, AttentionCount::full, config::Recompute::full), formula(4),
                1e-12 * model);
    // Scores and context take 4 s^2 h in each layer and pass; of the three passes' operations, a causal model saves
    // half.
    EXPECT_NEAR(model - gpt::model_flops(config, 640, AttentionCount::causal_half), 0.5 * 3 * B * l * 4 * s * s * h,
                1e-12 * model);
    EXPECT_NEAR(gpt::hardware_flops(config, 640, AttentionCount::full, config::Recompute::selective) - model,
                B * l * 4 * s * s * h, 1e-12 * model);
  }
}

// A window of 4 leaves 4 (10 - 4/2) pairs of a sequence of 10, as if positions were continuous, of 10 * 10 / 2.
TEST(GptCost, FlopsOfAWindowAreThoseOfItsPairs) {
  ModelConfig config = llama(3, 8, 2, 1, 5, 3);
  config.sequence = 10;
  config.window = 4;
  EXPECT_DOUBLE_EQ(gpt::attention_forward_flops(config, AttentionCount::causal_half), 4.0 * 3 * 8 * 32);
  EXPECT_DOUBLE_EQ(gpt::attention_forward_flops(config, AttentionCount::full), 4.0 * 3 * 8 * 64);
  config.window = 10;
  EXPECT_DOUBLE_EQ(gpt::attention_forward_flops(config, AttentionCount::full), 4.0 * 3 * 8 * 100);
}

TEST(GptCost, FlopsOfGroupedQueriesAndSwigluAreCountedByHand) {
  ModelConfig config = llama(1, 2, 2, 1, 5, 3);
  config.head_dim = 4;
  config.sequence = 10;
  config.vocabulary_multiple = 4;
  // Weights: queries 2 x 8, keys and values 2 x 8 together, output 8 x 2, three of 2 x 5; tokens 10.
  EXPECT_EQ(gpt::block_forward_flops(config, AttentionCount::full), 2 * 10 * (16 + 16 + 16 + 30) + 4 * 10 * 10 * 8);
  EXPECT_EQ(gpt::head_forward_flops(config), 2 * 10 * 2 * 4);
}

}  // namespace
}  // namespace terrace::models
