// How Python's transformers lays out a GPT: the names, shapes and order of its tensors (GPT2LMHeadModel,
// LlamaForCausalLM) and its config.json.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "terrace/base/json.h"
#include "terrace/models/gpt/cost/config.h"

namespace terrace::models::gpt {

// One tensor of theirs. `view` gives, of our parameter, the elements that it holds: a view whose elements, in order,
// are theirs; so the same view serves both ways.
struct HfTensor {
  std::string name;            // "model.layers.0.self_attn.q_proj.weight"
  std::vector<int64_t> shape;  // theirs
  std::string parameter;       // ours: "blocks.0.attention.qkv.weight"; "": theirs is zero, a bias that we do not have
  std::function<at::Tensor(const at::Tensor&)> view;
};

// In their order. Together they cover every parameter but the rows that pad the vocabulary. Throws UserError where
// neither layout can express the model, with what each would need.
std::vector<HfTensor> hf_tensors(const ModelConfig& config);

// config.json without the ids of the tokenizer's tokens. Throws as hf_tensors().
Json hf_config(const ModelConfig& config);

// The model of a config.json; `name` is for error messages. Throws UserError for another model_type and for what ours
// does not have, by key and value.
ModelConfig config_of_hf(const Json& json, const std::string& name);

// Whether a tensor in their files holds no weight: masks and tables that older versions saved.
bool is_hf_buffer(const std::string& name);

}  // namespace terrace::models::gpt
