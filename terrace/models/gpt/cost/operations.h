// What each unit of a GPT computes and communicates on one rank for one micro-batch.
#pragma once

#include "terrace/models/gpt/settings/config.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::models::gpt {

// The operations that models/gpt/model.cpp executes in training where both halves of a layer are on one stage: the
// second norm then adds the output of attention to the hidden states, which takes one pass over these more where a
// stage ends between the halves. Attention is that of ops::joint_attention()'s kernels, which rotate queries and keys
// themselves. Where several tensor ranks share keys and values, each computes them. Left out are kernels on token
// numbers and other single numbers of a token, except in the loss.
schedule::Operations embedding_operations(const ModelConfig& config, const schedule::UnitTableOptions& options);
schedule::Operations attention_operations(const ModelConfig& config, const schedule::UnitTableOptions& options);
schedule::Operations ffn_operations(const ModelConfig& config, const schedule::UnitTableOptions& options);
// The logits exist for one chunk of tokens at a time: each of the three products is a few products of a chunk's rows.
schedule::Operations head_operations(const ModelConfig& config, const schedule::UnitTableOptions& options);

}  // namespace terrace::models::gpt
