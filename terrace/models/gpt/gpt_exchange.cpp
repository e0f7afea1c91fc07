// Implements the part of the GPT's family that other programs read and write.
#include "terrace/models/gpt/gpt_exchange.h"

#include <ATen/ops/equal.h>
#include <fmt/format.h>

#include "terrace/data/text/text_config.h"
#include "terrace/models/gpt/hf_layout.h"

namespace terrace::models::gpt {
namespace {

constexpr const char* head_name = "lm_head.weight";

}  // namespace

std::vector<std::string> GptExchange::hf_types() const {
  return {"gemma3_text", "gpt2", "llama", "mistral", "mixtral", "phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe"};
}

std::vector<std::string> GptExchange::read_hf_config(const Json& json, const std::string& name,
                                                     config::Config& config) const {
  std::vector<std::string> unused;
  model_of(config) = config_of_hf(json, name, &unused);
  data::text_of(config).train = {"data/corpus"};
  return unused;
}

// Fine-tuning may untie a head without changing config.json.
std::vector<std::string> GptExchange::follow_hf_tensors(const std::function<at::Tensor(const std::string&)>& stored,
                                                        config::Config& config) const {
  ModelConfig& model = model_of(config);
  const at::Tensor head = stored(head_name);
  if (!model.tied_head || !head.defined()) return {};
  const std::vector<HfTensor> tensors = gpt::hf_tensors(model);
  const std::string& embedding = tensors.front().name;
  const at::Tensor tokens = stored(embedding);
  if (!tokens.defined()) return {};  // reported with the other missing tensors
  if (head.sizes() == tokens.sizes() && head.to(at::kFloat).equal(tokens.to(at::kFloat))) return {};
  model.tied_head = false;
  return {fmt::format(
      "tie_word_embeddings = true in config.json, but '{}' is not '{}': the stored head is kept and not tied, as "
      "transformers 5 does; transformers 4 would drop it",
      head_name, embedding)};
}

Json GptExchange::hf_config(const config::Config& config) const { return gpt::hf_config(model_of(config)); }

std::vector<HfTensor> GptExchange::hf_tensors(const config::Config& config) const {
  return gpt::hf_tensors(model_of(config));
}

bool GptExchange::is_hf_buffer(const config::Config& config, const std::string& name) const {
  const bool mask_or_table =
      name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name.ends_with(".rotary_emb.inv_freq");
  return mask_or_table || (model_of(config).tied_head && name == head_name);
}

void GptExchange::forget_initial_values(config::Config& config) const {
  model_of(config).init_std = ModelConfig{}.init_std;
}

}  // namespace terrace::models::gpt
