// Reads how a model from elsewhere is meant to generate: generation_config.json of transformers, which checkpoints
// keep.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "terrace/base/text/json.h"

namespace terrace::data {

inline constexpr const char* generation_role = "generation";  // of the attached file
inline constexpr const char* generation_file = "generation_config.json";

// Throws UserError where the file is no JSON object, or where bos_token_id or eos_token_id is no id or list of ids.
Json read_generation_config(const std::filesystem::path& path);

// Returns the ids of a key that has one, several or none.
std::vector<int64_t> token_ids(const Json& generation, const char* key);

}  // namespace terrace::data
