// Defines how a GPT is cut over the mesh axis "tensor" (Megatron-LM, arXiv 1909.08053, section 3).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/mesh/param_mark.h"
#include "terrace/models/gpt/settings/config.h"

namespace terrace::models::gpt {

// The mark of the parameter with this name and whole shape; an unknown parameter stays unmarked. The rows of
// attention.qkv are in groups (a group's queries, its key, its value) and those of ffn.first with SwiGLU in pairs
// (gate, up), so that each rank's part is one contiguous range of dimension 0. If there are fewer groups than ranks, a
// group's queries are divided among several ranks, which all have the group's key and value.
ParamMark mark_of(const ModelConfig& config, const std::string& name, std::vector<int64_t> shape);

}  // namespace terrace::models::gpt
