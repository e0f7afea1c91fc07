// Shared by the tests of exports and imports: checkpoints of small models, and their logits beside those of
// transformers.
#pragma once

#include <ATen/core/grad_mode.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/data/text/tokenizer/tokenizer.h"
#include "terrace/models/families.h"
#include "terrace/models/gpt/settings/config.h"
#include "tests/models/gpt_options.h"
#include "tests/models/small_models.h"
#include "tests/pytorch/reference.h"

namespace terrace::exchange {

namespace fs = std::filesystem;

inline constexpr const char* script = "exchange/hf_cases.py";

inline std::unique_ptr<models::Model> perturbed(const models::gpt::ModelConfig& config, uint64_t seed) {
  auto model = models::initialized(config, at::kFloat, seed);
  models::perturb(model->parameters());
  return model;
}

inline fs::path save(const fs::path& folder, models::Model& model, const models::gpt::ModelConfig& config,
                     const std::string& tokenizer = "") {
  checkpoint::State state;
  state.config = config::parse(
      "[model]\nlayers = 1\nwidth = 8\nheads = 1\nsequence = 8\nvocabulary = 8\n[data]\ntrain = [\"corpus\"]\n"
      "[train]\nglobal_batch = 1\nsteps = 1\n[optimizer]\nlearning_rate = 0.1\n[checkpoint]\nfolder = \"run\"\n",
      "run.toml", models::families());
  models::gpt::model_of(state.config) = config;
  if (!tokenizer.empty()) {
    state.attached = {{"tokenizer", tokenizer, data::tokenizer_file_name(read_text(tokenizer))}};
  }
  state.collections = {{"weights", {}}};
  for (const nn::Parameter* parameter : model.parameters()) {
    state.collections[0].tensors.push_back({parameter->name, parameter->value, parameter->mark});
  }
  return checkpoint::save(folder, state, {});
}

inline std::unique_ptr<models::Model> load(const fs::path& path) {
  const checkpoint::Reader reader(checkpoint::resolve(path));
  const config::Config config = reader.config(models::families());
  auto model = models::initialized(models::gpt::model_of(config));
  checkpoint::Collection weights{"weights", {}};
  for (const nn::Parameter* parameter : model->parameters()) {
    weights.tensors.push_back({parameter->name, parameter->value, parameter->mark});
  }
  reader.read(weights);
  return model;
}

// Adds the errors of our logits and those of transformers for the model in `folder`.
inline void add_logits(testing::ErrorTally& tally, testing::PyTorch& pytorch, const std::string& name,
                       models::Model& model, const models::gpt::ModelConfig& config, const fs::path& folder,
                       uint64_t seed) {
  const at::NoGradGuard no_grad;
  const models::Batch batch = models::some_batch(config, 2, seed);
  testing::Tensors inputs = {{"tokens", batch["tokens"]}};
  for (const nn::Parameter* parameter : model.parameters()) inputs[parameter->name] = parameter->value;
  Json options = models::options_of(config);
  options["folder"] = folder.string();
  const auto reference = pytorch.run(script, "hf_logits", options, at::kFloat, inputs);
  testing::add_errors(tally, name, {{"logits", models::logits_of(model, models::hidden_of(model, batch, {}))}},
                      reference);
}

inline std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace terrace::exchange
