// Tests that an import uses what a folder for transformers holds, or refuses or names it.
#include <gmock/gmock.h>

#include <cmath>

#include "terrace/checkpoint/hf_folder.h"
#include "terrace/checkpoint/safetensors.h"
#include "terrace/data/text/text_config.h"
#include "terrace/exchange/hf.h"
#include "tests/exchange/hf_models.h"
#include "tests/paths.h"
#include "tests/scratch_folder.h"

namespace terrace::exchange {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> names_in(const fs::path& safetensors) {
  std::vector<std::string> names;
  const checkpoint::SafetensorsFile file(safetensors);
  for (const checkpoint::SafetensorsEntry& entry : file.header().entries) names.push_back(entry.name);
  return names;
}

// A folder that the tests change one tensor of.
class Changed {
 public:
  explicit Changed(const models::gpt::ModelConfig& config) {
    save(folder_ / "run", *perturbed(config, 3), config);
    export_hf({.checkpoint = folder_ / "run", .output = path(), .tokenizer = {}});
  }
  fs::path path() const { return folder_ / "hf"; }
  fs::path output() const { return folder_ / "imported"; }
  ImportOptions options() const {
    return {.folder = path(), .output = output(), .tokenizer = {}, .without_tokenizer = true};
  }

  // Writes the tensors again, with `change` applied to their list.
  void write(const std::function<void(std::vector<std::pair<std::string, at::Tensor>>&)>& change) const {
    std::vector<std::pair<std::string, at::Tensor>> tensors;
    {
      const checkpoint::HfFolder folder(path());
      for (const std::string& name : folder.names()) tensors.emplace_back(name, folder.tensor(name).clone());
    }
    change(tensors);
    checkpoint::write_safetensors(path() / "model.safetensors", tensors, {});
  }

 private:
  ScratchFolder folder_;
};

// transformers 5 does not tie a stored head that differs; version 4 drops it.
TEST(Import, AStoredHeadThatDiffersIsKept) {
  models::gpt::ModelConfig config = models::small_models()[1].config;
  config.tied_head = true;
  const at::NoGradGuard no_grad;
  for (const bool differs : {false, true}) {
    const Changed folder(config);
    at::Tensor head;
    folder.write([&](auto& tensors) {
      for (const auto& [name, tensor] : tensors) {
        if (name == "model.embed_tokens.weight") head = differs ? tensor.mul(2) : tensor.clone();
      }
      tensors.emplace_back("lm_head.weight", head);
    });
    const Imported imported = import_hf(folder.options());
    EXPECT_EQ(imported.model.get<models::gpt::ModelConfig>().tied_head, !differs);
    const config::Config start = config::load(imported.config, models::families());
    EXPECT_EQ(start.model.get<models::gpt::ModelConfig>().tied_head, !differs);
    const auto model = load(folder.output());
    for (const nn::Parameter* parameter : model->parameters()) {
      if (parameter->name != "head.output.weight") continue;
      EXPECT_TRUE(differs);
      EXPECT_TRUE(parameter->value.narrow(0, 0, config.vocabulary).equal(head));
    }
  }
}

TEST(Import, TransformersFiveHasTheLogitsOfAStoredHead) {
  const fs::path packages = tests::transformers5();
  if (!fs::exists(packages)) GTEST_SKIP() << "tools/setup --test has not installed " << packages;
  models::gpt::ModelConfig config = models::small_models()[1].config;
  config.tied_head = true;
  const Changed folder(config);
  folder.write([&](auto& tensors) {
    at::Tensor head;
    for (const auto& [name, tensor] : tensors) {
      if (name == "model.embed_tokens.weight") head = tensor.mul(2).add(0.25);
    }
    tensors.emplace_back("lm_head.weight", head);
  });
  const Imported imported = import_hf(folder.options());
  testing::PyTorch pytorch(packages);
  testing::ErrorTally tally(at::kFloat);
  const auto model = load(folder.output());
  for (uint64_t seed = 0; seed < 6; ++seed) {
    add_logits(tally, pytorch, "stored head", *model, imported.model.get<models::gpt::ModelConfig>(), folder.path(),
               seed);
  }
  tally.expect_as_accurate();
}

TEST(Import, WeightsThatAreNotFiniteAreRefusedByNameAndNumber) {
  const Changed folder(models::small_models()[0].config);
  folder.write([&](auto& tensors) {
    for (auto& [name, tensor] : tensors) {
      if (name == "transformer.h.0.mlp.c_fc.weight") tensor[1][2] = std::nan("");
      if (name == "transformer.wpe.weight") tensor[0].fill_(INFINITY);
    }
  });
  const std::string message = refusal([&] { import_hf(folder.options()); });
  EXPECT_THAT(message,
              HasSubstr("'transformer.h.0.mlp.c_fc.weight' has 1 value that is not finite (1 NaN, 0 infinite)"));
  EXPECT_THAT(message, HasSubstr("'transformer.wpe.weight' has 30 values that are not finite (0 NaN, 30 infinite)"));
  EXPECT_FALSE(fs::exists(folder.output()));
}

TEST(Import, WhatAnImportWouldDropIsRefusedOrSaid) {
  const Changed folder(models::small_models()[1].config);
  Json json = Json::parse(read_text(folder.path() / "config.json"));
  const Json before = json;
  json["sliding_window"] = 128;
  json["logit_scale"] = 0.5;
  json["mlp_gate"] = nullptr;
  write_text_atomically(folder.path() / "config.json", json.dump());
  for (const char* name : {"README.md", "chat_template.jinja", "optimizer.pt"}) {
    write_text_atomically(folder.path() / name, "text");
  }
  ::testing::internal::CaptureStdout();
  import_hf(folder.options());
  const std::string said = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(said, HasSubstr("keys that terrace does not know and leaves out: sliding_window, logit_scale"));
  EXPECT_THAT(said, HasSubstr("leaves out these files: chat_template.jinja, optimizer.pt\n"));
  fs::remove_all(folder.output());
  json = before;
  json["quantization_config"] = {{"quant_method", "fp8"}};
  write_text_atomically(folder.path() / "config.json", json.dump());
  EXPECT_THAT(refusal([&] { import_hf(folder.options()); }), HasSubstr("has a quantization_config"));
  write_text_atomically(folder.path() / "config.json", before.dump());
  write_text_atomically(folder.path() / "adapter_config.json", "{}");
  EXPECT_THAT(refusal([&] { import_hf(folder.options()); }), HasSubstr("holds an adapter (adapter_config.json)"));
}

TEST(Import, EndTokensAndSamplingSettingsComeBack) {
  const Changed folder(models::small_models()[1].config);
  Json json = Json::parse(read_text(folder.path() / "config.json"));
  json["bos_token_id"] = 3;
  json["eos_token_id"] = 4;
  write_text_atomically(folder.path() / "config.json", json.dump());
  write_text_atomically(folder.path() / "generation_config.json",
                        R"({"eos_token_id": [4, 8, 9], "temperature": 0.6, "top_p": 0.9, "do_sample": true})");
  const Imported imported = import_hf(folder.options());
  const config::Config start = config::load(imported.config, models::families());
  EXPECT_EQ(start.data.get<data::TextConfig>().generation, (folder.output() / "generation_config.json").string());
  const fs::path back = folder.path().parent_path() / "back";
  export_hf({.checkpoint = folder.output(), .output = back, .tokenizer = {}});
  EXPECT_EQ(Json::parse(read_text(back / "generation_config.json")),
            Json::parse(R"({"eos_token_id": [4, 8, 9], "temperature": 0.6, "top_p": 0.9, "do_sample": true,
                            "bos_token_id": 3})"));
  json = Json::parse(read_text(back / "config.json"));
  EXPECT_EQ(json["eos_token_id"], (Json{4, 8, 9}));
  EXPECT_EQ(json["bos_token_id"], 3);
  fs::remove_all(folder.output());
  write_text_atomically(folder.path() / "generation_config.json", R"({"eos_token_id": "</s>"})");
  EXPECT_THAT(refusal([&] { import_hf(folder.options()); }), HasSubstr("eos_token_id = \"</s>\" is no id of a token"));
}

// transformers reads whole files of weights, whatever the index says.
TEST(Import, TensorsThatTheIndexLeavesOutAreSeen) {
  const Changed folder(models::small_models()[0].config);
  folder.write([](auto& tensors) { tensors.emplace_back("score.weight", tensors.front().second.clone()); });
  fs::rename(folder.path() / "model.safetensors", folder.path() / "a.safetensors");
  Json map = Json::object();
  for (const std::string& name : names_in(folder.path() / "a.safetensors")) {
    if (name != "score.weight") map[name] = "a.safetensors";
  }
  write_text_atomically(folder.path() / "model.safetensors.index.json", Json{{"weight_map", map}}.dump());
  EXPECT_THAT(refusal([&] { import_hf(folder.options()); }), HasSubstr("'score.weight' is not a tensor of this model"));
}

}  // namespace
}  // namespace terrace::exchange
