// The limits that the control groups (version 1 or 2) of this process set, as containers and Slurm jobs do.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace terrace {

// The CPU time limit in cores; 0 without a limit. `system` is the folder that has proc/ and sys/.
double core_quota(const std::filesystem::path& system = "/");

// The bytes that the memory limits leave for this process, where the page cache that can be dropped counts as free;
// nothing without a limit.
std::optional<int64_t> memory_under_limits(const std::filesystem::path& system = "/");

}  // namespace terrace
