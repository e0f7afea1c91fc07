// The single checks of a start, apart from each other: files that a configuration names, memory, steps that are left.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/plan/memory/memory_need.h"

namespace terrace::run {

// A sentence for every problem: datasets that do not exist, a tokenizer that cannot be read or has more tokens than the
// model, folders of [checkpoint] that cannot be written to, and for a new run a train.initial_weights that does not
// exist. A run that continues from a checkpoint of its own does not need that one any more.
std::vector<std::string> file_problems(const config::Config& config, bool is_new_run);
// Throws one UserError with all problems, whose heading ends with the advice; returns if there are none.
void throw_file_problems(const std::vector<std::string>& problems, const std::string& advice = "");

// Throws UserError if the folder can be neither found nor made.
void make_run_folder(const std::string& folder);

// A description of a machine that predicts the steps must exist and have a device for each rank.
void check_machine(const config::Config& config, int64_t ranks);

// Throws UserError if the computation of micro-batches is to be checked on a GPU, where bits may not repeat.
void check_repeats(const config::Config& config, const at::Device& device);

// Throws UserError if fewer steps are left than a profile of `profile_steps` steps needs; 0: no profile.
void check_profile(const config::Config& config, int64_t profile_steps, int64_t steps_done);

// Throws UserError if the run is past the step after which --stop-after ends it; 0: none is given.
void check_stop_after(const config::Config& config, int64_t stop_after, int64_t steps_done);

// observe.machine of a run that calibrates at its start.
inline constexpr std::string_view measured_machine = "measure";

// The memory of this machine with which the need of a run is compared.
plan::AvailableMemory available_memory(const at::Device& device);

// A sentence for each key that has no effect, because of the number of ranks (`here` of them on this machine) or of a
// --set. The route "auto" counts as "flat".
std::vector<std::string> idle_keys_of(const config::Config& config, int64_t ranks, int64_t here);
// Logs these sentences as one warning, if there are any.
void warn_of_idle_keys(const std::vector<std::string>& sentences);

// Logs a warning where the ranks hold several copies that train by themselves and have too few outer updates for their
// momentum (config::few_outer_updates).
void warn_of_few_outer_updates(const config::Config& config, int64_t ranks, int64_t here);

// Throws UserError with ExitCode::infeasible if what the ranks need, `here` of them on this machine, is not available
// on the machine or the GPU; with train.check_memory = false it logs that as a warning.
void check_memory(const config::Config& config, int64_t ranks, int64_t here, const plan::MemoryNeed& need,
                  const plan::AvailableMemory& available);

}  // namespace terrace::run
