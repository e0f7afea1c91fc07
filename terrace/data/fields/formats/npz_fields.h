// ClimaX's shards of fields, YEAR_SHARD.npz. They have neither units nor times of their own: a year has 365 days, which
// its shards divide evenly.
#pragma once

#include <filesystem>
#include <memory>

#include "terrace/data/fields/field_file.h"

namespace terrace::data {

// Recognises a shard by its name: other .npz files lie beside shards.
bool is_shard_of_fields(const std::filesystem::path& path);

std::unique_ptr<FieldFile> open_npz(const std::filesystem::path& path);

}  // namespace terrace::data
