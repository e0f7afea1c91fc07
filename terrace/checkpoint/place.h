// The common part of every way to save: room, lock, temporary name, final name, retention.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "terrace/checkpoint/checkpoint.h"

namespace terrace::checkpoint {

// Makes folder/step_N out of what `write` puts into the folder it is given, a new and empty one under a temporary name;
// see save() for the rest. `needed` is the least that it takes, in bytes.
std::filesystem::path place_checkpoint(const std::filesystem::path& folder, int64_t step, uint64_t needed,
                                       const Retention& retention,
                                       const std::function<void(const std::filesystem::path&)>& write);

// Writes all files of a checkpoint but the marker into an empty folder, each of them synced.
void write_contents(const std::filesystem::path& folder, const State& state);

uint64_t needed_bytes(const State& state);

}  // namespace terrace::checkpoint
