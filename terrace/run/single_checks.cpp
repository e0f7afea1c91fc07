// Checks the files, folders and memory that a run needs, and reports all problems with files and folders in one
// message.
#include "terrace/run/single_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/plural.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/staging.h"
#include "terrace/config/outer_updates.h"
#include "terrace/data/data_of_family.h"
#include "terrace/machine/machine.h"
#include "terrace/mesh/shards.h"
#include "terrace/observe/memory.h"
#include "terrace/run/hooks/hooks.h"
#include "terrace/schedule/rank_share.h"
#include "terrace/schedule/step/step.h"
#include "terrace/train/data_stage.h"
#include "terrace/train/device.h"

namespace terrace::run {
namespace {

namespace fs = std::filesystem;
using Problems = std::vector<std::string>;

void check_weights_exist(const std::string& path, Problems& problems) {
  if (path.empty()) return;
  try {
    checkpoint::resolve(path);
  } catch (const UserError& error) {
    problems.push_back(fmt::format("train.initial_weights = \"{}\": {}", path, error.what()));
  }
}

// Why no folder can be made in `folder`; "" if one can. Some file systems, such as /proc, refuse a folder although the
// permissions allow it, so one is made and removed.
std::string refuses_folders(const fs::path& folder) {
  std::string name = (folder / ".terrace_XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) return std::generic_category().message(errno);
  ::rmdir(name.c_str());
  return "";
}

// `folder` need not exist, but it must be possible to make it in its nearest existing ancestor.
void check_folder(const char* key, const std::string& folder, Problems& problems) {
  const auto add = [&](const fs::path& where, const std::string& what) {
    problems.push_back(fmt::format("{} = \"{}\": {} {}; name another folder", key, folder, where.string(), what));
  };
  std::error_code error;
  fs::path existing = fs::absolute(folder);
  for (; !fs::exists(existing, error); existing = existing.parent_path()) {
    if (error) return add(existing, fmt::format("cannot be used: {}", error.message()));
    if (fs::is_symlink(existing, error)) return add(existing, "is a symbolic link that leads nowhere");
  }
  const std::string refusal = refuses_folders(existing);
  if (!refusal.empty()) add(existing, fmt::format("is not a writable folder: {}", refusal));
}

// The folder on this machine that staged checkpoints pass through.
void check_staging(const config::CheckpointConfig& config, Problems& problems) {
  if (config.staging.empty()) return;
  const size_t before = problems.size();
  check_folder("checkpoint.staging", config.staging, problems);
  if (problems.size() > before) return;
  try {
    checkpoint::check_staging(checkpoint::staging_of(config.staging, config.folder));
  } catch (const UserError& error) {
    problems.emplace_back(error.what());
  }
}

// The folder on this machine for copies of the states.
void check_memory_folder(const config::CheckpointConfig& config, Problems& problems) {
  if (config.memory_every > 0) check_folder("checkpoint.memory_folder", config.memory_folder, problems);
}

// The folder on this machine into which data are staged.
void check_stage(const data::StageConfig& config, Problems& problems) {
  if (!config.stages()) return;
  try {
    check_folder("data.stage", train::stage_folder(config), problems);
  } catch (const UserError& error) {
    problems.emplace_back(error.what());
  }
}

}  // namespace

std::vector<std::string> file_problems(const config::Config& config, bool is_new_run) {
  Problems problems = data::data_of_family(config).problems_with_files(config);
  if (is_new_run) check_weights_exist(config.train.initial_weights, problems);
  check_folder("checkpoint.folder", config.checkpoint.folder, problems);
  check_staging(config.checkpoint, problems);
  check_memory_folder(config.checkpoint, problems);
  check_stage(data::data_of_family(config).stage(config), problems);
  return problems;
}

void make_run_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return;
  throw UserError::of("checkpoint.folder = \"{}\" cannot be made: {}; name another folder", folder, error.message());
}

void throw_file_problems(const std::vector<std::string>& problems, const std::string& advice) {
  if (problems.empty()) return;
  throw UserError::of("{} with what the configuration names{}:\n  {}", counted(problems.size(), "problem"), advice,
                      fmt::join(problems, "\n  "));
}

std::vector<std::string> idle_keys_of(const config::Config& config, int64_t ranks, int64_t here) {
  const mesh::Mesh mesh = schedule::mesh_of(config.layout, ranks, here);
  const mesh::ShardSizes sizes = mesh::shard_sizes(config.layout, mesh);
  return config::idle_keys(config, {.all = ranks,
                                    .data = sizes.ranks,
                                    .weights = sizes.weights,
                                    .optimizer = sizes.optimizer,
                                    .typed_node = sizes.typed_node,
                                    .feeds_back = !schedule::fed_back_reductions(config.layout, sizes).empty()});
}

void warn_of_idle_keys(const std::vector<std::string>& sentences) {
  if (!sentences.empty()) log_warning("keys without effect in this run:\n  {}", fmt::join(sentences, "\n  "));
}

void warn_of_few_outer_updates(const config::Config& config, int64_t ranks, int64_t here) {
  const std::string advice = config::few_outer_updates(config);
  if (advice.empty()) return;
  const mesh::ShardSizes sizes = mesh::shard_sizes(config.layout, schedule::mesh_of(config.layout, ranks, here));
  if (sizes.has_local_copies()) log_warning("{}", advice);
}

void check_machine(const config::Config& config, int64_t ranks) {
  const std::string& name = config.observe.machine;
  if (name.empty() || name == measured_machine) return;
  const machine::Machine machine = machine::load(name);
  const std::string missing = machine::missing_rate(machine, config.train.precision);
  if (!missing.empty()) {
    throw UserError::of("observe.machine = \"{}\" {}, or name another machine, or \"{}\"", name, missing,
                        measured_machine);
  }
  const int64_t devices = machine.devices();
  if (devices >= ranks) return;
  throw UserError::of("observe.machine = \"{}\" has {} devices for {} ranks; name a machine with more, or \"{}\"", name,
                      devices, ranks, measured_machine);
}

void check_repeats(const config::Config& config, const at::Device& device) {
  const int64_t every = config.train.check_computation_every;
  if (every == 0 || !device.is_cuda()) return;
  throw UserError::of(
      "train.check_computation_every = {} compares bits of repeated computations, but on a GPU some kernels add in no "
      "fixed order; use check_computation_every = 0 with check_states_every = {}, or device = \"cpu\"",
      every, every);
}

void check_profile(const config::Config& config, int64_t profile_steps, int64_t steps_done) {
  const int64_t left = config.train.steps - steps_done;
  if (profile_steps == 0 || profile_steps <= left - profile_warm_up) return;
  throw UserError::of(
      "a profile of {} steps needs {} steps before them, but {} of train.steps = {} are left; profile at most {}, or "
      "raise train.steps",
      profile_steps, profile_warm_up, left, config.train.steps, std::max<int64_t>(0, left - profile_warm_up));
}

void check_stop_after(const config::Config& config, int64_t stop_after, int64_t steps_done) {
  if (stop_after == 0 || stop_after >= steps_done) return;
  throw UserError::of(
      "--stop-after {} is before step {}, after which the run continues; name a later step, up to train.steps = {}, or "
      "leave it out",
      stop_after, steps_done, config.train.steps);
}

plan::AvailableMemory available_memory(const at::Device& device) {
  plan::AvailableMemory available{.machine = static_cast<double>(observe::available_bytes())};
  if (device.is_cuda()) available.gpu = static_cast<double>(train::available_bytes(device));
  return available;
}

void check_memory(const config::Config& config, int64_t ranks, int64_t here, const plan::MemoryNeed& need,
                  const plan::AvailableMemory& available) {
  const std::string refusal = plan::memory_refusal(config, ranks, here, need, available);
  if (!refusal.empty() && config.train.check_memory) throw UserError(refusal, ExitCode::infeasible);
  if (!refusal.empty()) log_warning("{}", refusal);
}

}  // namespace terrace::run
