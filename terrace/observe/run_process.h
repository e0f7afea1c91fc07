// Records which process trains in a run's folder, or trained there last, and how it ended. The file is .process.json in
// the run's folder; its name begins with a dot as those of locks do, since it says nothing of the training itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "terrace/base/system/process_identity.h"

namespace terrace::observe {

enum class ProcessState { running, finished, stopped, failed };
std::string_view word_of(ProcessState state);

struct RunProcess {
  ProcessIdentity identity;  // of the first rank
  int64_t ranks = 1;
  std::string job = {};                        // Slurm's number; "" outside of Slurm
  ProcessState state = ProcessState::running;  // a process that is killed leaves `running`
  std::string reason = {};                     // why it was stopped or has failed
  int64_t step = 0;                            // done at its end
};

// The record that a run which begins now in this process writes; its job is that of SLURM_JOB_ID.
RunProcess this_run_process(int64_t ranks);

// Replaces the file atomically. A folder that cannot be written to is logged, and the run goes on.
void write_run_process(const std::filesystem::path& folder, const RunProcess& trainer);
// No value where there is no such file, or none that can be read.
std::optional<RunProcess> read_run_process(const std::filesystem::path& folder);

}  // namespace terrace::observe
