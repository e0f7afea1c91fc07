// Finds the layout of transformers that can express a GPT.
#pragma once

#include "terrace/models/gpt/settings/config.h"

namespace terrace::models::gpt {

// All but gpt2 are Llama and models after it.
enum class HfKind { gpt2, llama, qwen2, qwen3, mistral, phi3, gemma3, mixtral, qwen2_moe, qwen3_moe };

// Throws UserError if no layout can express the model, with what GPT-2's would need and what the nearest of the others
// would, or if ModelConfig::hf_layout names one that cannot.
HfKind hf_kind(const ModelConfig& config);

}  // namespace terrace::models::gpt
