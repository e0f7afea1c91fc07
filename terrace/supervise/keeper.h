// The process on each node that keeps the copies of a run's states in the node's memory.
#pragma once

#include <filesystem>

namespace terrace::supervise {

inline constexpr double seconds_between_signs = 0.5;

// Writes a line to standard output at these intervals, as a sign that the node lives, until standard input ends, nobody
// reads the lines, or a stop is requested. Then it removes what this host's memory holds of the run: the copies outlive
// the ranks, and not the supervisor. `memory` is checkpoint.memory_folder.
void keep_node(const std::filesystem::path& memory, const std::filesystem::path& run_folder);

}  // namespace terrace::supervise
