// Makes the checks of a start in the order of what they need, from the keys to the checkpoint.
#include "terrace/run/start_checks.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/system/start_watch.h"
#include "terrace/base/text/json.h"
#include "terrace/data/data_of_family.h"
#include "terrace/plan/memory/memory_need.h"
#include "terrace/run/resumed_checkpoint.h"
#include "terrace/run/single_checks.h"
#include "terrace/schedule/pipeline/first_micro_batch.h"
#include "terrace/schedule/rank_share.h"
#include "terrace/train/check_resumed.h"
#include "terrace/train/check_tensors.h"
#include "terrace/train/device.h"
#include "terrace/train/initial_weights.h"

namespace terrace::run {

StartChecks::StartChecks(const config::Config& config, const RunOptions& options, int64_t ranks, int64_t here)
    : config_(config), options_(options), ranks_(ranks), here_(here) {
  found.ranks = ranks;
}

void StartChecks::begin(const at::Device& device) {
  const Activity activity("checking the files and the memory that the run needs");
  device_ = device;
  make_all();
}

void StartChecks::look() { make_all(); }

void StartChecks::make_all() {
  const std::string& folder = config_.checkpoint.folder;
  make([&] { check_kept_folder(options_.config_file, folder); });
  const bool ranks_fit = make([&] { schedule::check_ranks(config_, ranks_, here_); });
  if (ranks_fit) {
    warn_of_idle_keys(idle_keys_of(config_, ranks_, here_));
    warn_of_few_outer_updates(config_, ranks_, here_);
    make([&] {
      schedule::check_first_gradients(config_, schedule::mesh_of(config_.layout, ranks_, here_).size("data"));
    });
  }
  check_files(is_new_run(options_.resume, folder));
  make([&] { check_machine(config_, ranks_); });
  if (ranks_fit) make([&] { check_need(); });
  if (begins()) claim_folder();
  make([&] { open_checkpoint(); });
  make([&] { check_profile(config_, options_.profile_steps, found.steps_done); });
  make([&] { check_stop_after(config_, options_.stop_after, found.steps_done); });
}

// Makes one check; returns whether it found no problem.
bool StartChecks::make(const Check& check) {
  if (begins()) {
    check();
    return true;
  }
  try {
    check();
    return true;
  } catch (const UserError& error) {
    if (error.code == ExitCode::stopped) throw;
    note(error.what(), error.code);
    return false;
  }
}

void StartChecks::note(const std::string& problem, ExitCode code) {
  found.problems.push_back(problem);
  const bool is_alone = found.problems.size() == 1;
  found.code = is_alone && code == ExitCode::infeasible ? ExitCode::infeasible : ExitCode::bad_input;
}

void StartChecks::check_files(bool is_new) {
  const std::vector<std::string> problems = file_problems(config_, is_new);
  if (begins()) throw_file_problems(problems);
  bool weights_exist = true;
  for (const std::string& problem : problems) {
    note(problem, ExitCode::bad_input);
    if (problem.starts_with("train.initial_weights")) weights_exist = false;
  }
  if (!begins() && problems.empty()) make([&] { open_data(); });
  if (!is_new || !weights_exist) return;
  make([&] {
    const train::Depth depth = begins() ? train::Depth::manifest : train::Depth::checksums;
    found.initial_weights = train::check_initial_weights(config_, depth);
  });
}

void StartChecks::open_data() {
  std::unique_ptr<checkpoint::Reader> begun;
  try {
    if (!config_.train.initial_weights.empty()) begun = open_resumed(options_, config_.checkpoint.folder);
  } catch (const UserError&) {
    return;  // open_checkpoint() meets it too
  }
  data_ = data::data_of_family(config_).open(train::with_initial_statistics(config_, begun.get(), /*says=*/false));
  found.samples = data_->samples_in_epoch();
}

bool StartChecks::claim_known_folder() {
  const config::CheckpointConfig& own = config_.checkpoint;
  if (options_.resume != "auto" || own.memory_every == 0 || !std::filesystem::is_directory(own.folder)) return false;
  check_kept_folder(options_.config_file, own.folder);
  claim_folder();
  return true;
}

void StartChecks::claim_folder() {
  if (lock_) return;
  const std::string& folder = config_.checkpoint.folder;
  make_run_folder(folder);
  lock_.emplace(
      std::filesystem::path(folder) / ".run.lock",
      fmt::format("another process trains in {}; wait until it ends, or name another checkpoint.folder", folder));
}

void StartChecks::open_checkpoint() {
  resumed = open_resumed(options_, config_.checkpoint.folder);
  if (resumed == nullptr) return;
  found.checkpoint = resumed->path();
  found.steps_done = resumed->step();
  const bool keys_fit = make([&] { train::check_resumed_config(config_, *resumed); });
  if (begins()) return;  // the trainer reads and checks the rest
  if (keys_fit) make([&] { train::check_resumed_tensors(config_, *resumed, train::Depth::checksums); });
  if (data_ == nullptr) return;
  make([&] {
    Json identity = data_->identity();
    train::check_resumed_data(*data_, identity, *resumed);
  });
}

void StartChecks::check_need() {
  const at::Device device = begins()                    ? *device_
                            : options_.world != nullptr ? train::choose_device(config_.train.device, *options_.world)
                                                        : train::choose_device_of_threads(config_.train.device, ranks_,
                                                                                          "train.device = \"cpu\"");
  check_repeats(config_, device);
  const plan::AvailableMemory available = available_memory(device);
  found.device = device.is_cuda() ? "cuda" : "cpu";
  found.memory_bytes = available.gpu.value_or(available.machine);
  found.largest = plan::least_memory(train::on_device(config_, device), ranks_, here_, 1);
  found.need = plan::least_memory(train::on_device(config_, device), ranks_, here_, available.ranks_together(here_));
  check_memory(config_, ranks_, here_, found.need, available);
}

}  // namespace terrace::run
