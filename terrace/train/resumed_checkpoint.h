// The checkpoint that a run continues from.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/comm/comm.h"
#include "terrace/train/run.h"

namespace terrace::train {

// A configuration that a checkpoint keeps names the folder that the run had then. Throws UserError with both names
// where `folder` came from such a file and the file lies in another run's folder. `config_file` may be empty.
void check_kept_folder(const std::filesystem::path& config_file, const std::string& folder);

// What options.resume asks for; none for a new run. Throws UserError where `folder` holds a run already and none was
// asked for, where the checkpoint lies in another folder or is older than one in this, or holds weights alone.
std::unique_ptr<checkpoint::Reader> open_resumed(const RunOptions& options, const std::string& folder);

// Called by all ranks of a launch: each one's own view of the checkpoint that the first one chose, and none on the
// first itself. Throws a Refusal on all where a rank cannot open it or sees another one under its name.
std::unique_ptr<checkpoint::Reader> open_chosen(comm::World& world, comm::Comm& all, const std::string& chosen,
                                                const RunOptions& options);

}  // namespace terrace::train
