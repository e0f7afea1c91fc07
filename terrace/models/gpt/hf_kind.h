// Which of transformers' layouts can express a GPT.
#pragma once

#include "terrace/models/gpt/cost/config.h"

namespace terrace::models::gpt {

enum class HfKind { gpt2, llama };

// Throws UserError where neither can, with what each would need and the model has not.
HfKind hf_kind(const ModelConfig& config);

}  // namespace terrace::models::gpt
