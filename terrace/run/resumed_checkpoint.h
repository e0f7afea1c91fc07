// Opens the checkpoint that a run continues from.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/comm/comm.h"
#include "terrace/run/run_training.h"

namespace terrace::run {

// The config.toml in a checkpoint names the folder that the run had when it was saved. Throws UserError with both names
// if `config_file` is such a file and its checkpoint lies in another folder than `folder`. `config_file` may be empty.
void check_kept_folder(const std::filesystem::path& config_file, const std::string& folder);

// Whether --resume `resume` leads to no checkpoint: it was not given, or is "auto" and `folder` holds none.
bool is_new_run(const std::string& resume, const std::string& folder);

// Opens the checkpoint that options.resume asks for; nullptr for a new run. Throws UserError if a new run was asked for
// and `folder` already holds a run, or if the checkpoint lies in another folder, is older than another one in `folder`
// or holds weights alone.
std::unique_ptr<checkpoint::Reader> open_resumed(const RunOptions& options, const std::string& folder);

// Called by all ranks of a launch, on all of which the first one's choice is `chosen`. Opens it for reading by this
// rank; returns nullptr on the first rank, which has it open already. Throws a Refusal on all ranks if a rank cannot
// open the checkpoint or sees another one under this name.
std::unique_ptr<checkpoint::Reader> open_chosen(comm::World& world, comm::Comm& all, const std::string& chosen,
                                                const RunOptions& options);

}  // namespace terrace::run
