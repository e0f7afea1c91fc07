// How a GPT is cut over the mesh axis "tensor", as a table (Megatron-LM, arXiv 1909.08053, section 3).
#pragma once

#include <vector>

#include "terrace/config/config.h"
#include "terrace/nn/module.h"

namespace terrace::models::gpt {

// Marks every parameter that the table knows. The rows of attention.qkv go by groups (a group's queries, its key, its
// value) and those of ffn.first with SwiGLU by pairs (gate, up), so that a cut between groups is one contiguous piece
// of dimension 0. Where there are fewer groups than ranks, ranks share a group's queries out and each has its key and
// value.
void mark_parameters(const config::ModelConfig& config, const std::vector<nn::Parameter*>& parameters);

}  // namespace terrace::models::gpt
