// Checkpoints on their way: written into a node-local folder, which is quick, then copied into the run's, which may be
// slow. A checkpoint has its final name only when it is whole there.
#pragma once

#include <cstdint>
#include <filesystem>

#include "terrace/checkpoint/checkpoint.h"

namespace terrace::checkpoint {

// The folder inside `staging` that belongs to one run's folder, so that runs of one machine can share `staging`.
std::filesystem::path staging_of(const std::filesystem::path& staging, const std::filesystem::path& run_folder);

// Writes the state into staged/step_N and returns that path. Throws std::system_error where the disk refuses; nothing
// is left then.
std::filesystem::path stage(const std::filesystem::path& staged, const State& state);

// Makes a checkpoint in `folder` out of a staged one, as save() does out of a state, and removes the staged one, also
// where copying fails. Every file is compared with its checksum on the way.
std::filesystem::path copy_out(const std::filesystem::path& staged_checkpoint, const std::filesystem::path& folder,
                               const Retention& retention);

}  // namespace terrace::checkpoint
