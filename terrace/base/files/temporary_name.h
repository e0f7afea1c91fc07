// Names of files and folders that are being written, until they are complete and get their final names.
#pragma once

#include <filesystem>
#include <string>

namespace terrace {

// The name of this host as the system has it.
std::string host_name();

// A new name, "HOST-PROCESS-RANDOM", that no other process has, also none of another host or container.
std::string unique_process_name();

// A new name for what becomes `final_path`: ".NAME.HOST-PROCESS-RANDOM.partial" in the same folder, which no other
// process uses, also none of another host or container that shares the file system.
std::filesystem::path temporary_path(const std::filesystem::path& final_path);

// Removes what processes of this host that have ended left under temporary names for this path. What other hosts left
// is kept, since nobody here knows whether they still write; it is logged. Throws UserError where a live process of
// this host writes it, or another host did so in the last ten minutes. `kept`, a temporary name for this path, stays
// where it is.
void remove_abandoned_partials(const std::filesystem::path& final_path, const std::filesystem::path& kept = {});

}  // namespace terrace
