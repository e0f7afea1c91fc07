// Whether all machines of a launch see the run's folder, without which no checkpoint can be saved.
#pragma once

#include <filesystem>

#include "terrace/comm/comm.h"

namespace terrace::train {

// Called by all members, of which the first sees `folder`: it makes a file there for as long as this call takes, and
// the others look for it, for up to `patience_seconds`, since network file systems may show a new file late. Throws a
// Refusal on each where a member does not see it; the first one names the ranks.
void check_shared_folder(comm::Comm& all, const std::filesystem::path& folder, double patience_seconds = 5);

}  // namespace terrace::train
