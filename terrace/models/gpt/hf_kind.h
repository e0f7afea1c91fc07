// Finds the layout of transformers that can express a GPT.
#pragma once

#include "terrace/models/gpt/cost/config.h"

namespace terrace::models::gpt {

enum class HfKind { gpt2, llama };

// Throws UserError if neither layout can express the model, with what each layout would need.
HfKind hf_kind(const ModelConfig& config);

}  // namespace terrace::models::gpt
