// The steps whose samples a run leaves out because they were spikes (train.on_spike = "back"). Checkpoints keep the
// list; until the next one is saved it is only in a file of the run's folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

namespace terrace::train {

// The folder in a run's folder with the records of spikes and this list.
inline constexpr const char* spikes_folder = "spikes";

// The list in the run's folder; empty where there is no file. Throws UserError that names a file that is no such list.
std::set<int64_t> read_left_out_steps(const std::filesystem::path& run_folder);
void write_left_out_steps(const std::filesystem::path& run_folder, const std::set<int64_t>& steps);
// For a new run in a folder that another one had.
void remove_left_out_steps(const std::filesystem::path& run_folder);

}  // namespace terrace::train
