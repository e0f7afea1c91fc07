// A run's folder of checkpoints: the names in it, the lock of the process that saves, and crash-safe removal.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "terrace/checkpoint/checkpoint.h"

namespace terrace::checkpoint {

constexpr const char* marker_name = "COMPLETE";
constexpr const char* manifest_name = "manifest.json";
constexpr const char* config_name = "config.toml";
constexpr const char* run_config_name = "resolved.toml";  // in the run's folder; another name than a user's file has

std::string step_name(int64_t step);  // "step_00000200"

// The step in the name of a checkpoint's folder, or nullopt for other names.
std::optional<int64_t> step_of(const std::filesystem::path& checkpoint);

// The temporary name under which a checkpoint is written. list() ignores names with a leading dot.
std::filesystem::path partial_path(const std::filesystem::path& folder, int64_t step);

// The FileLock that a process holds while it saves. So every temporary name that its next holder finds is a left-over.
constexpr const char* lock_name = ".lock";
std::string held_message(const std::filesystem::path& folder);

// Renames the checkpoint to a hidden name in one operation and returns that path, which can then be removed slowly.
std::filesystem::path hide_checkpoint(const std::filesystem::path& checkpoint);

// Exchanges the names of two folders in one operation, so that both names exist at every moment. Returns false where
// the file system cannot.
bool exchange_names(const std::filesystem::path& a, const std::filesystem::path& b);

// Replaces a folder by two renames, between which no folder has the name `checkpoint`. Returns the old folder's new
// path.
std::filesystem::path replace_by_renaming(const std::filesystem::path& written,
                                          const std::filesystem::path& checkpoint);

// Removes the left-overs of interrupted saves and removals.
void remove_leftovers(const std::filesystem::path& folder);

// Removes the complete checkpoints before `step` that are neither among the newest nor at a multiple of keep_every.
void apply_retention(const std::filesystem::path& folder, int64_t step, const Retention& retention);

// "; move it away and continue from OTHER with: COMMAND", for errors about a damaged checkpoint: while it is in the
// run's folder, no older one can be resumed from. `resume_command` is the command that continues the run, without its
// --resume, or "" where that is not known. Where there is no other checkpoint, the text says so.
std::string recovery_advice(const std::filesystem::path& checkpoint, const std::string& resume_command);

// The run's folder of a configuration that the run kept, as RUN/step_00000200/config.toml or RUN/resolved.toml; nullopt
// for other files.
std::optional<std::filesystem::path> run_of_kept_config(const std::filesystem::path& config_file);

}  // namespace terrace::checkpoint
