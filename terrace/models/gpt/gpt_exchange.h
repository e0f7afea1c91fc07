// GPTs in the layouts of transformers: GPT-2's, Llama's and those after it (hf_layout.h).
#pragma once

#include "terrace/models/exchange_of_family.h"

namespace terrace::models::gpt {

class GptExchange : public ExchangeOfFamily {
 public:
  std::vector<std::string> hf_types() const override;
  std::vector<std::string> read_hf_config(const Json& json, const std::string& name,
                                          config::Config& config) const override;
  std::vector<std::string> follow_hf_tensors(const std::function<at::Tensor(const std::string&)>& stored,
                                             config::Config& config) const override;
  Json hf_config(const config::Config& config) const override;
  std::vector<HfTensor> hf_tensors(const config::Config& config) const override;
  bool is_hf_buffer(const config::Config& config, const std::string& name) const override;
  void forget_initial_values(config::Config& config) const override;
};

}  // namespace terrace::models::gpt
