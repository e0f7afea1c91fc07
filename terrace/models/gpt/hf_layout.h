// Describes how the Python library transformers lays out a GPT: the names, shapes and order of its tensors
// (GPT2LMHeadModel, LlamaForCausalLM and models after it) and its config.json.
#pragma once

#include <string>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/models/exchange_of_family.h"
#include "terrace/models/gpt/settings/config.h"

namespace terrace::models::gpt {

// The tensors in the order of transformers. Together they cover every parameter except the rows that pad the
// vocabulary. Throws UserError if no layout can express the model, with what each layout would need.
std::vector<HfTensor> hf_tensors(const ModelConfig& config);

// config.json without the ids of the tokenizer's special tokens. Throws UserError as hf_tensors() does.
Json hf_config(const ModelConfig& config);

// The model of a config.json; `name` is for error messages. The key model_type is one of GptExchange::hf_types().
// Throws UserError with key and value for features that our model does not have. `unused`, if given, takes the names of
// the other keys that may say something of the model and are not read.
ModelConfig config_of_hf(const Json& json, const std::string& name, std::vector<std::string>* unused = nullptr);

}  // namespace terrace::models::gpt
