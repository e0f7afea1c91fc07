// Checks that all machines of a launch see the same run folder, without which no checkpoint can be saved.
#pragma once

#include <filesystem>

#include "terrace/comm/comm.h"

namespace terrace::run {

// Called by all members; `folder` must exist for the first one, which makes a file there and removes it at the end. The
// other members look for the file for up to `patience_seconds`, since network file systems may show a new file late.
// Throws a Refusal on every member if a member does not see the file; the first member reports which ranks do not.
void check_shared_folder(comm::Comm& all, const std::filesystem::path& folder, double patience_seconds = 5);

}  // namespace terrace::run
