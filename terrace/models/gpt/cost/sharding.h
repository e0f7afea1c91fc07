// How a GPT is cut over the mesh axis "tensor", as a table (Megatron-LM, arXiv 1909.08053, section 3).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/mesh/param_mark.h"
#include "terrace/models/gpt/cost/config.h"

namespace terrace::models::gpt {

// The mark of the parameter of that name and whole shape; of an unknown one it is unmarked. The rows of attention.qkv
// go by groups (a group's queries, its key, its value) and those of ffn.first with SwiGLU by pairs (gate, up), so that
// a cut between groups is one contiguous piece of dimension 0. Where there are fewer groups than ranks, ranks share a
// group's queries out and each has its key and value.
ParamMark mark_of(const ModelConfig& config, const std::string& name, std::vector<int64_t> shape);

}  // namespace terrace::models::gpt
