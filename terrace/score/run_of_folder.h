// Makes a run that a planner can predict of the folder of one that terrace train has made.
#pragma once

#include <filesystem>

#include "terrace/score/published_run.h"
#include "terrace/score/run_of_row.h"

namespace terrace::score {

// Whether the path is a folder, and so to be read as a run and not as a table.
bool is_run_folder(const std::filesystem::path& path);

// The run of the configuration that the folder has, on as many devices as it had ranks. A step's time is the median of
// those of the last phase with its whole batch, without the first three steps, in which memory is still allocated. The
// machine must be given; the program is this one if none is. A run that cannot be compared has the reasons in
// PublishedRun::problems; throws UserError where the folder holds no run.
PublishedRun run_of_folder(const std::filesystem::path& folder, const Given& given);

}  // namespace terrace::score
