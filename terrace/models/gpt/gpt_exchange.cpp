// Implements the part of the GPT's family that other programs read and write.
#include "terrace/models/gpt/gpt_exchange.h"

#include "terrace/data/text/text_config.h"
#include "terrace/models/gpt/hf_layout.h"

namespace terrace::models::gpt {

std::vector<std::string> GptExchange::hf_types() const { return {"gpt2", "llama", "mistral", "qwen2", "qwen3"}; }

void GptExchange::read_hf_config(const Json& json, const std::string& name, config::Config& config) const {
  model_of(config) = config_of_hf(json, name);
  data::text_of(config).train = {"data/corpus"};
}

Json GptExchange::hf_config(const config::Config& config) const { return gpt::hf_config(model_of(config)); }

std::vector<HfTensor> GptExchange::hf_tensors(const config::Config& config) const {
  return gpt::hf_tensors(model_of(config));
}

bool GptExchange::is_hf_buffer(const config::Config& config, const std::string& name) const {
  const bool mask_or_table =
      name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name.ends_with(".rotary_emb.inv_freq");
  return mask_or_table || (model_of(config).tied_head && name == "lm_head.weight");
}

void GptExchange::forget_initial_values(config::Config& config) const {
  model_of(config).init_std = ModelConfig{}.init_std;
}

}  // namespace terrace::models::gpt
