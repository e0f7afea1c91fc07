// How the Python library transformers lays out a GPT: the names, shapes and order of its tensors (GPT2LMHeadModel,
// LlamaForCausalLM and models after it) and its config.json.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "terrace/base/json.h"
#include "terrace/models/gpt/settings/config.h"

namespace terrace::models::gpt {

// One tensor of a transformers checkpoint. `view` returns a view of our parameter whose elements, in order, are those
// of the tensor, so the same view serves reading and writing.
struct HfTensor {
  std::string name;            // "model.layers.0.self_attn.q_proj.weight"
  std::vector<int64_t> shape;  // in transformers
  // The name of our parameter, "blocks.0.attention.qkv.weight"; "" for a bias that our model does not have and that is
  // zero in transformers.
  std::string parameter;
  std::function<at::Tensor(const at::Tensor&)> view;
};

// The tensors in the order of transformers. Together they cover every parameter except the rows that pad the
// vocabulary. Throws UserError if no layout can express the model, with what each layout would need.
std::vector<HfTensor> hf_tensors(const ModelConfig& config);

// config.json without the ids of the tokenizer's special tokens. Throws UserError as hf_tensors() does.
Json hf_config(const ModelConfig& config);

// The model of a config.json; `name` is for error messages. Throws UserError with key and value for another model_type
// and for features that our model does not have.
ModelConfig config_of_hf(const Json& json, const std::string& name);

// Whether a tensor in a file of transformers is not a weight but a mask or table, which older versions saved.
bool is_hf_buffer(const std::string& name);

}  // namespace terrace::models::gpt
