// Tests the export to transformers and the import from it: equal logits, equal bits after both, and refusal of models
// that the other side does not support.
#include "terrace/exchange/hf.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <span>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/hf_folder.h"
#include "terrace/data/text/tokenizer/tokenizer.h"
#include "terrace/models/families.h"
#include "terrace/models/gpt/cached_sequences.h"
#include "terrace/models/gpt/hf_layout.h"
#include "tests/exchange/hf_models.h"
#include "tests/models/gpt_options.h"
#include "tests/models/small_models.h"
#include "tests/pytorch/reference.h"
#include "tests/scratch_folder.h"

namespace terrace::exchange {
namespace {

using models::SmallModel;
using ::testing::HasSubstr;

// Models that together have every option of the two layouts.
std::vector<SmallModel> expressible_models() {
  const std::vector<SmallModel> small = models::small_models();
  models::gpt::ModelConfig gpt2 = small[0].config, llama = small[1].config;
  models::gpt::ModelConfig untied = gpt2, plain = gpt2, tied = llama;
  untied.tied_head = false;
  untied.norm_epsilon = 1e-3;
  plain.bias = false;
  plain.ffn_width = 120;
  tied.tied_head = tied.bias = true;
  tied.rope_theta = 500.0;
  tied.norm_epsilon = 1e-2;
  tied.kv_heads = tied.heads;
  models::gpt::ModelConfig stretched = tied;
  stretched.rope_scaling = models::gpt::RopeScaling::linear;
  stretched.rope_factor = 2.5;
  std::vector<SmallModel> models = {{"gpt2", gpt2},   {"gpt2 untied", untied}, {"gpt2 without biases", plain},
                                    {"llama", llama}, {"llama tied", tied},    {"llama stretched", stretched}};
  models::gpt::ModelConfig phi3 = llama;
  phi3.hf_layout = models::gpt::HfLayout::phi3;
  phi3.window = 6;
  models.push_back({"phi3", phi3});
  // The models that are named after those of others; the last one has experts that no layout here has.
  models.insert(models.end(), small.begin() + 3, small.end() - 1);
  return models;
}

TEST(Export, TransformersHasOurLogits) {
  const ScratchFolder folder;
  testing::PyTorch& pytorch = testing::shared_pytorch();
  testing::ErrorTally tally(at::kFloat);
  for (const auto& [name, config] : expressible_models()) {
    for (uint64_t seed = 0; seed < 6; ++seed) {
      const auto model = perturbed(config, seed);
      const std::string place = name + std::to_string(seed);
      save(folder / place, *model, config);
      export_hf({.checkpoint = folder / place, .output = folder / (place + "hf"), .tokenizer = {}});
      add_logits(tally, pytorch, name, *model, config, folder / (place + "hf"), seed);
    }
  }
  tally.expect_as_accurate();
}

TEST(Import, AnImportedExportIsTheSameModelBitForBit) {
  const ScratchFolder folder;
  for (const auto& [name, config] : expressible_models()) {
    const auto model = perturbed(config, 1);
    save(folder / name, *model, config);
    const auto exported_folder = folder / (name + "hf");
    const Exported exported = export_hf({.checkpoint = folder / name, .output = exported_folder, .tokenizer = {}});
    const Imported imported = import_hf(
        {.folder = exported_folder, .output = folder / (name + "back"), .tokenizer = {}, .without_tokenizer = true});
    EXPECT_EQ(exported.parameters, [&] {
      int64_t unpadded = 0;
      for (const auto& n : checkpoint::HfFolder(exported_folder).names()) {
        unpadded += checkpoint::HfFolder(exported_folder).tensor(n).numel();
      }
      return unpadded;
    }());
    EXPECT_EQ(imported.parameters, exported.parameters);
    const auto& found_model = imported.model.get<models::gpt::ModelConfig>();
    models::gpt::ModelConfig expected = config;
    expected.vocabulary_multiple = found_model.vocabulary_multiple;
    expected.bias = found_model.bias;  // GPT-2's layout has biases, zero where the model had none
    EXPECT_EQ(found_model, expected) << name;
    const auto back = load(imported.checkpoint);
    std::map<std::string, at::Tensor> found;
    for (const nn::Parameter* parameter : back->parameters()) found[parameter->name] = parameter->value;
    for (const nn::Parameter* parameter : model->parameters()) {
      const bool table = parameter->value.size(0) == config.padded_vocabulary();
      const int64_t rows = table ? config.vocabulary : parameter->value.size(0);
      EXPECT_TRUE(found.at(parameter->name).narrow(0, 0, rows).equal(parameter->value.narrow(0, 0, rows)))
          << name << " " << parameter->name;
    }
    export_hf({.checkpoint = folder / (name + "back"), .output = folder / (name + "again"), .tokenizer = {}});
    for (const char* file : {"model.safetensors", "config.json"}) {
      EXPECT_EQ(read_text(folder / (name + "again") / file), read_text(folder / (name + "hf") / file)) << name;
    }
  }
}

Json gemma3_of(Json sizes) {
  sizes.update({{"model_type", "gemma3_text"},
                {"num_hidden_layers", 5},
                {"head_dim", 10},
                {"sliding_window", 4},
                {"sliding_window_pattern", 3},
                {"query_pre_attn_scalar", 7},
                {"rope_theta", 900.0},
                {"rope_local_base_freq", 60.0},
                {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}},
                {"tie_word_embeddings", true}});
  return sizes;
}

// Without a global layer.
Json local_gemma3_of(const Json& sizes) {
  Json local = gemma3_of(sizes);
  local.update({{"num_hidden_layers", 2}, {"num_key_value_heads", 1}});
  return local;
}

// Models that transformers has saved, in one file and in several, in fp32 and bf16.
std::vector<Json> their_models() {
  const Json gpt2 = {{"model_type", "gpt2"}, {"n_layer", 2},     {"n_embd", 30},  {"n_head", 3},
                     {"n_positions", 17},    {"vocab_size", 51}, {"n_inner", 44}, {"tie_word_embeddings", true}};
  const Json llama = {
      {"model_type", "llama"},    {"num_hidden_layers", 2},  {"hidden_size", 24}, {"num_attention_heads", 6},
      {"num_key_value_heads", 2}, {"intermediate_size", 40}, {"vocab_size", 51},  {"max_position_embeddings", 17},
      {"rope_theta", 5000.0},     {"attention_bias", true},  {"mlp_bias", true},  {"tie_word_embeddings", false}};
  Json llama3 = llama;
  llama3["rope_theta"] = 500.0;
  llama3["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 64}};
  Json yarn = llama, yarn_of_deepseek = llama;
  yarn["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 64}};
  yarn_of_deepseek["rope_scaling"] = {
      {"type", "yarn"},  {"factor", 40.0},        {"beta_fast", 3},    {"beta_slow", 0.5},
      {"mscale", 0.707}, {"mscale_all_dim", 0.5}, {"truncate", false}, {"attention_factor", nullptr}};
  Json qwen2 = llama;
  for (const char* key : {"attention_bias", "mlp_bias"}) qwen2.erase(key);
  qwen2["model_type"] = "qwen2";
  Json qwen3 = qwen2;
  qwen3["model_type"] = "qwen3";
  qwen3["head_dim"] = 10;
  Json mistral = qwen2, windowed = qwen3;
  mistral["model_type"] = "mistral";
  mistral["sliding_window"] = 5;
  windowed.update({{"use_sliding_window", true}, {"sliding_window", 3}, {"max_window_layers", 0}});
  // Phi 3's own tokens lie outside of a small vocabulary.
  Json phi3 = qwen2;
  phi3.update({{"model_type", "phi3"}, {"bos_token_id", 1}, {"eos_token_id", 2}, {"pad_token_id", nullptr}});
  Json windowed_phi3 = phi3;
  windowed_phi3.update({{"sliding_window", 4}, {"tie_word_embeddings", true}, {"num_key_value_heads", 6}});
  Json unlimited = qwen2;
  unlimited.update({{"use_sliding_window", true}, {"sliding_window", nullptr}, {"max_window_layers", 0}});
  Json mixtral = qwen2, qwen2_moe = qwen2, qwen3_moe = qwen3;
  mixtral.update({{"model_type", "mixtral"}, {"num_local_experts", 5}, {"num_experts_per_tok", 2}});
  qwen2_moe.update({{"model_type", "qwen2_moe"},
                    {"num_experts", 5},
                    {"num_experts_per_tok", 3},
                    {"moe_intermediate_size", 9},
                    {"shared_expert_intermediate_size", 27}});
  qwen3_moe.update({{"model_type", "qwen3_moe"},
                    {"num_experts", 7},
                    {"num_experts_per_tok", 2},
                    {"moe_intermediate_size", 11},
                    {"norm_topk_prob", true},
                    {"mlp_only_layers", {0}}});
  Json erf = gpt2;
  erf["activation_function"] = "gelu";
  return {{{"config", gpt2}},
          {{"config", llama}, {"max_shard_size", "12KB"}},
          {{"config", llama}, {"dtype", "bfloat16"}},
          {{"config", llama3}},
          {{"config", yarn}},
          {{"config", yarn_of_deepseek}},
          {{"config", qwen2}},
          {{"config", qwen3}},
          {{"config", mistral}},
          {{"config", windowed}},
          {{"config", phi3}, {"dtype", "bfloat16"}},
          {{"config", windowed_phi3}, {"max_shard_size", "12KB"}},
          {{"config", gemma3_of(qwen2)}, {"dtype", "bfloat16"}},
          {{"config", local_gemma3_of(qwen2)}},
          {{"config", unlimited}},
          {{"config", mixtral}},
          {{"config", qwen2_moe}},
          {{"config", qwen3_moe}, {"max_shard_size", "12KB"}},
          {{"config", erf}}};
}

// The prompt and the most probable token behind it, again and again, by way of the cache.
std::vector<int64_t> greedy_text(models::Model& model, const models::gpt::ModelConfig& config,
                                 std::vector<int64_t> text, int64_t tokens) {
  models::gpt::CachedSequences sequences(config, model, 1, config.sequence);
  size_t seen = 0;
  for (; tokens > 0; --tokens) {
    const std::vector<float> logits = sequences.next_logits(0, std::span(text).subspan(seen));
    seen = text.size();
    text.push_back(std::distance(logits.begin(), std::ranges::max_element(logits)));
  }
  return text;
}

void expect_their_text(testing::PyTorch& pytorch, const fs::path& theirs, models::Model& model,
                       const models::gpt::ModelConfig& config) {
  const std::vector<int64_t> prompt = {3, 14, 15, 9};
  const Json options = {{"folder", theirs.string()}, {"tokens", 12}};
  const at::Tensor text =
      pytorch.run(script, "greedy_text", options, at::kFloat, {{"prompt", at::tensor(prompt).unsqueeze(0)}})
          .theirs.at("text")
          .contiguous();
  const std::vector<int64_t> expected(text.const_data_ptr<int64_t>(), text.const_data_ptr<int64_t>() + text.numel());
  EXPECT_EQ(greedy_text(model, config, prompt, 12), expected);
}

TEST(Import, TransformersModelsHaveTheirLogitsAndGoBackBitForBit) {
  const ScratchFolder folder;
  testing::PyTorch& pytorch = testing::shared_pytorch();
  testing::ErrorTally tally(at::kFloat);
  int number = 0;
  for (Json options : their_models()) {
    const fs::path theirs = folder / std::to_string(number), ours = folder / (std::to_string(number) + "ours");
    options["folder"] = theirs.string();
    const auto saved = pytorch.run(script, "save_model", options, at::kFloat, {});
    EXPECT_EQ(saved.theirs.at("files").item<int64_t>() > 1, options.contains("max_shard_size"));
    const Imported imported = import_hf({.folder = theirs, .output = ours, .tokenizer = {}, .without_tokenizer = true});
    const auto model = load(ours);
    const std::string precision = options.value("dtype", "float32");
    for (uint64_t seed = 0; seed < 6; ++seed) {
      add_logits(tally, pytorch, std::to_string(number), *model, imported.model.get<models::gpt::ModelConfig>(), theirs,
                 seed);
    }
    SCOPED_TRACE(number);
    expect_their_text(pytorch, theirs, *model, imported.model.get<models::gpt::ModelConfig>());
    const fs::path back = folder / (std::to_string(number) + "back");
    export_hf({.checkpoint = ours,
               .output = back,
               .tokenizer = {},
               .precision = precision == "bfloat16" ? config::Precision::bf16 : config::Precision::fp32});
    const checkpoint::HfFolder before(theirs), after(back);
    EXPECT_EQ(after.names(), before.names());
    for (const std::string& name : before.names()) EXPECT_TRUE(after.tensor(name).equal(before.tensor(name))) << name;
    const config::Config start = config::load(imported.config, models::families());
    EXPECT_EQ(start.model, imported.model);
    EXPECT_EQ(start.train.initial_weights, ours.string());
    ++number;
  }
  tally.expect_as_accurate();
}

TEST(Export, AModelThatNoLayoutExpressesIsRefusedBeforeAnythingIsWritten) {
  const ScratchFolder folder;
  const models::gpt::ModelConfig mixed = models::small_models()[2].config;
  save(folder / "run", *models::initialized(mixed), mixed);
  const std::string message =
      refusal([&] { export_hf({.checkpoint = folder / "run", .output = folder / "out", .tokenizer = {}}); });
  EXPECT_THAT(message,
              HasSubstr("GPT-2's needs model.activation = \"gelu\" instead of \"swiglu\", kv_heads = heads = 4 "
                        "instead of 1, heads * head_dim = width = 30 instead of 4 * 9 = 36"));
  EXPECT_THAT(message, HasSubstr("Llama's needs model.positions = \"rotary\" instead of \"learned\", model.norm = "
                                 "\"rmsnorm\" instead of \"layernorm\""));
  EXPECT_FALSE(fs::exists(folder / "out"));
}

TEST(Export, ALayoutThatIsAskedForIsRefusedWhereItLacksAFeature) {
  models::gpt::ModelConfig config = models::small_models()[4].config;  // biases of queries, keys and values
  config.hf_layout = models::gpt::HfLayout::phi3;
  config.rope_scaling = models::gpt::RopeScaling::linear;
  EXPECT_EQ(
      refusal([&] { models::gpt::hf_tensors(config); }),
      "model.hf_layout = \"phi3\", but Phi 3's layout needs model.qkv_bias = false instead of true, "
      "model.rope_scaling = \"none\" instead of \"linear\"; export with hf_layout = \"auto\", or train a model of "
      "this kind");
}

TEST(Export, AnOutputThatExistsIsLeftAlone) {
  const ScratchFolder folder;
  const models::gpt::ModelConfig config = models::small_models()[0].config;
  save(folder / "run", *models::initialized(config), config);
  fs::create_directory(folder / "out");
  write_text_atomically(folder / "out" / "notes.txt", "mine");
  EXPECT_THAT(refusal([&] { export_hf({.checkpoint = folder / "run", .output = folder / "out", .tokenizer = {}}); }),
              HasSubstr("out exists"));
  EXPECT_EQ(read_text(folder / "out" / "notes.txt"), "mine");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "out"), {}), 1);
}

// A folder written by export_hf, which the tests damage.
class Damaged {
 public:
  Damaged() {
    const models::gpt::ModelConfig config = models::small_models()[0].config;
    save(folder_ / "run", *models::initialized(config), config);
    export_hf({.checkpoint = folder_ / "run", .output = path(), .tokenizer = {}});
  }
  fs::path path() const { return folder_ / "hf"; }
  fs::path output() const { return folder_ / "imported"; }

  void set(const std::string& key, const Json& value) const {
    Json config = Json::parse(read_text(path() / "config.json"));
    config[key] = value;
    write_text_atomically(path() / "config.json", config.dump());
  }

  std::string refused() const {
    std::string message =
        refusal([&] { import_hf({.folder = path(), .output = output(), .tokenizer = {}, .without_tokenizer = true}); });
    EXPECT_FALSE(fs::exists(output())) << message;
    return message;
  }

 private:
  ScratchFolder folder_;
};

TEST(Import, UnsupportedConfigurationsAreRefusedByKeyAndValue) {
  const std::vector<std::tuple<std::string, Json, std::string>> cases{
      {"model_type", "mamba",
       "model_type = \"mamba\" is not read; these are: \"gemma3_text\", \"gpt2\", \"llama\", \"mistral\", \"mixtral\", "
       "\"phi3\", "
       "\"qwen2\", \"qwen2_moe\", \"qwen3\", \"qwen3_moe\""},
      {"activation_function", "relu", "activation_function = \"relu\""},
      {"scale_attn_by_inverse_layer_idx", true, "scale_attn_by_inverse_layer_idx = true; terrace has false only"},
      {"embd_pdrop", 0.5, "embd_pdrop = 0.5"},
      {"n_layer", "two", "n_layer = \"two\" is of another kind"},
      {"n_layer", nullptr, "n_layer = null; write its value"},
      {"layer_norm_epsilon", nullptr, "layer_norm_epsilon = null; write 1e-05, which a missing key means"},
      {"scale_attn_weights", nullptr, "scale_attn_weights = false; terrace has true only"},
      {"n_head", 7, "model.heads = 7 does not divide model.width = 30"},
      {"n_inner", 78, "'transformer.h.0.mlp.c_fc.weight' has shape [30, 77], but config.json says [30, 78]"},
      {"n_layer", 3, "'transformer.h.2.ln_1.weight' is missing"},
      {"n_layer", 1, "'transformer.h.1.ln_1.weight' is not a tensor of this model"}};
  for (const auto& [key, value, said] : cases) {
    const Damaged folder;
    folder.set(key, value);
    EXPECT_THAT(folder.refused(), HasSubstr(said));
  }
}

TEST(Import, LlamaWithUnknownPositionsOrHalfItsBiasesIsRefused) {
  const ScratchFolder scratch;
  const models::gpt::ModelConfig config = models::small_models()[1].config;
  save(scratch / "run", *models::initialized(config), config);
  const std::vector<std::tuple<std::string, Json, std::string>> cases{
      {"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}}, "rope_scaling has no low_freq_factor"},
      {"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 8.0}}, "rope_scaling is \"dynamic\""},
      {"rope_parameters",
       {{"rope_type", "longrope"}},
       "rope_parameters is \"longrope\"; terrace scales rotary positions"},
      {"rope_scaling", {{"rope_type", "yarn"}}, "rope_scaling has no factor"},
      {"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}, {"beta_fast", "x"}}, "beta_fast = \"x\" is of another"},
      {"rope_scaling",
       {{"rope_type", "yarn"}, {"factor", 4.0}, {"beta_fast", 1}},
       "model.rope_beta_fast = 1 is not above model.rope_beta_slow = 1"},
      {"partial_rotary_factor", 0.5, "partial_rotary_factor = 0.5; terrace has 1.0 only"},
      {"rope_parameters",
       {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}},
       "rope_parameters: partial_rotary_factor = 0.5"},
      {"rope_theta", nullptr, "rope_theta = null; write 10000.0"},
      {"attention_bias", true, "attention_bias = true and mlp_bias = false"},
      {"hidden_act", "gelu", "hidden_act = \"gelu\"; terrace has \"silu\" only"}};
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto& [key, value, said] = cases[i];
    const fs::path folder = scratch / std::to_string(i);
    export_hf({.checkpoint = scratch / "run", .output = folder, .tokenizer = {}});
    Json json = Json::parse(read_text(folder / "config.json"));
    json[key] = value;
    write_text_atomically(folder / "config.json", json.dump());
    EXPECT_THAT(refusal([&] { import_hf({.folder = folder, .output = scratch / "out", .tokenizer = {}}); }),
                HasSubstr(said));
  }
}

// A null key means what transformers reads then, which is not what it reads where the key is missing.
TEST(Import, ANullIsNoMissingKey) {
  const Json qwen2 = {{"model_type", "qwen2"},    {"num_hidden_layers", 2},         {"hidden_size", 24},
                      {"num_attention_heads", 6}, {"num_key_value_heads", 2},       {"intermediate_size", 40},
                      {"vocab_size", 51},         {"max_position_embeddings", 8192}};
  const auto with = [&](const Json& keys) {
    Json json = qwen2;
    json.update(keys);
    return models::gpt::config_of_hf(json, "config.json");
  };
  const Json windows = {{"use_sliding_window", true}, {"max_window_layers", 0}};
  EXPECT_EQ(with(windows).window, 4096);
  Json null = windows;
  null["sliding_window"] = nullptr;
  EXPECT_EQ(with(null).window, 0);
  EXPECT_EQ(with({{"use_sliding_window", nullptr}}).window, 0);
  null["layer_types"] = {"sliding_attention", "sliding_attention"};
  EXPECT_THAT(refusal([&] { with(null); }), HasSubstr("sliding_window = null; write 4096"));
  null["layer_types"] = {"full_attention", "full_attention"};
  null["max_window_layers"] = nullptr;
  EXPECT_EQ(with(null).window, 0);
  EXPECT_EQ(with({{"num_key_value_heads", nullptr}}).kv_heads, 6);
  EXPECT_EQ(with({{"model_type", "mistral"}}).window, 4096);
  EXPECT_EQ(with({{"model_type", "mistral"}, {"sliding_window", nullptr}}).window, 0);
  EXPECT_EQ(with({{"model_type", "mistral"}, {"head_dim", nullptr}}).head_dim, 0);
  EXPECT_THAT(refusal([&] { with({{"model_type", "qwen3"}, {"head_dim", nullptr}}); }), HasSubstr("write 128"));
  const Json phi3 = {{"model_type", "phi3"}};
  EXPECT_EQ(with(phi3).window, 0);
  EXPECT_EQ(with(phi3).norm_epsilon, 1e-5);
  Json scaled = phi3;
  scaled["rope_scaling"] = {{"type", "yarn"}, {"factor", 2.0}};
  EXPECT_THAT(refusal([&] { with(scaled); }), HasSubstr("read as \"longrope\" whatever its type says"));
  EXPECT_FALSE(with({{"model_type", "llama"}, {"attention_bias", nullptr}, {"tie_word_embeddings", nullptr}}).bias);
}

// Functions that copy and print such values call themselves once for each level.
TEST(Import, DeeplyNestedJsonIsRefusedInEveryFile) {
  const std::string nested = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  const std::string in_key = "{\"model_type\": \"gpt2\", \"eos_token_id\": " + nested + "}";
  for (const std::string& text :
       {nested, in_key, std::string(1'000'000, '['), "{\"a\": " + std::string(100'000, '{')}) {
    for (const char* file : {"config.json", "model.safetensors.index.json"}) {
      const Damaged folder;
      if (std::string(file) != "config.json") fs::remove(folder.path() / "model.safetensors");
      write_text_atomically(folder.path() / file, text);
      EXPECT_THAT(folder.refused(), AllOf(HasSubstr(file), HasSubstr("nested more than 64 deep")));
    }
  }
}

TEST(Import, FilesThatAreNotWeightsAreRefusedByName) {
  const Damaged folder;
  fs::rename(folder.path() / "model.safetensors", folder.path() / "pytorch_model.bin");
  EXPECT_THAT(folder.refused(), HasSubstr("pytorch_model.bin, a Python pickle"));
  EXPECT_THAT(folder.refused(), HasSubstr("safe_serialization=True"));
  fs::remove(folder.path() / "pytorch_model.bin");
  EXPECT_THAT(folder.refused(), HasSubstr("holds neither model.safetensors nor"));
  const auto index = [&](const Json& json) {
    write_text_atomically(folder.path() / "model.safetensors.index.json", json.dump());
    return folder.refused();
  };
  EXPECT_THAT(index(Json::array()), HasSubstr("has no weight_map"));
  EXPECT_THAT(index({{"weight_map", {{"a", "../x.safetensors"}}}}), HasSubstr("no safetensors file of this folder"));
  EXPECT_THAT(index({{"weight_map", {{"a", "b.safetensors"}}}}), HasSubstr("b.safetensors, which does not exist"));
  fs::remove(folder.path() / "config.json");
  EXPECT_THAT(folder.refused(), HasSubstr("holds no config.json"));
}

}  // namespace
}  // namespace terrace::exchange
