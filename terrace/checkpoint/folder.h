// A run's folder of checkpoints: names, the lock of whoever saves, and removal that a crash cannot tear.
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

std::string step_name(int64_t step);  // "step_00000200"

// The step in the name of a checkpoint's folder; nothing for other names.
std::optional<int64_t> step_of(const std::filesystem::path& checkpoint);

// Where a checkpoint is written before it has its name. list() does not see names with a leading dot.
std::filesystem::path partial_path(const std::filesystem::path& folder, int64_t step);

// The FileLock held while a process saves, so that whatever has a temporary name belongs to a dead one.
constexpr const char* lock_name = ".lock";
std::string held_message(const std::filesystem::path& folder);

// Takes the checkpoint out of sight in one rename and returns where it is to be removed at leisure.
std::filesystem::path hide_checkpoint(const std::filesystem::path& checkpoint);

// Lets two folders exchange their names in one operation, so that there is no moment without either. False where the
// file system cannot.
bool exchange_names(const std::filesystem::path& a, const std::filesystem::path& b);

// Does so with two renames, between which no folder has the name `checkpoint`. Returns where the old one is now.
std::filesystem::path replace_by_renaming(const std::filesystem::path& written,
                                          const std::filesystem::path& checkpoint);

// Removes what interrupted saves and removals left.
void remove_leftovers(const std::filesystem::path& folder);

// Removes the complete checkpoints before `step` that are neither among the newest nor at a multiple of keep_every.
void apply_retention(const std::filesystem::path& folder, int64_t step, const Retention& retention);

// "; move it away and continue from OTHER with: COMMAND", for errors about a damaged checkpoint: while it is in the
// run's folder, no older one can be resumed from. `resume_command` is what continues the run, without its --resume; ""
// where that is not known. Says so where there is no other.
std::string way_out(const std::filesystem::path& checkpoint, const std::string& resume_command);

// The run's folder in which a configuration was kept, as RUN/step_00000200/config.toml is; nothing for other files.
std::optional<std::filesystem::path> run_of_kept_config(const std::filesystem::path& config_file);

}  // namespace terrace::checkpoint
