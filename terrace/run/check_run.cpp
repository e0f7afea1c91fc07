// Collects the problems that would end a run before its first step.
#include "terrace/run/check_run.h"

#include <algorithm>
#include <memory>

#include "terrace/base/text/json.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/data/data_of_family.h"
#include "terrace/data/source.h"
#include "terrace/run/check_start.h"
#include "terrace/run/resumed_checkpoint.h"
#include "terrace/run/start_facts.h"
#include "terrace/schedule/pipeline/first_micro_batch.h"
#include "terrace/schedule/rank_share.h"
#include "terrace/train/agreement.h"
#include "terrace/train/check_resumed.h"
#include "terrace/train/check_tensors.h"
#include "terrace/train/device.h"
#include "terrace/train/initial_weights.h"

namespace terrace::run {
namespace {

class RunChecker {
 public:
  RunChecker(const config::Config& config, const RunOptions& options, int64_t ranks, int64_t here)
      : config_(config), options_(options), ranks_(ranks), here_(here) {
    check.ranks = ranks;
  }

  void run() {
    note([&] { check_kept_folder(options_.config_file, config_.checkpoint.folder); });
    const bool ranks_fit = note([&] { schedule::check_ranks(config_, ranks_, here_); });
    if (ranks_fit) {
      warn_of_idle_keys(idle_keys_of(config_, ranks_, here_));
      note(
          [&] { schedule::check_noise_scale(config_, schedule::mesh_of(config_.layout, ranks_, here_).size("data")); });
    }
    const bool is_new = is_new_run(options_.resume, config_.checkpoint.folder);
    const std::vector<std::string> of_files = file_problems(config_, is_new);
    check.problems.insert(check.problems.end(), of_files.begin(), of_files.end());
    if (of_files.empty()) note([&] { open_data(); });
    const bool weights_exist = std::ranges::none_of(
        of_files, [](const std::string& problem) { return problem.starts_with("train.initial_weights"); });
    if (is_new && weights_exist) {
      note([&] { check.initial_weights = train::check_initial_weights(config_, train::Depth::checksums); });
    }
    note([&] { check_machine(config_, ranks_); });
    note([&] { look_at_checkpoint(); });
    note([&] { check_profile(config_, options_.profile_steps, check.steps_done); });
    note([&] { check_stop_after(config_, options_.stop_after, check.steps_done); });
    if (!check.problems.empty()) check.code = ExitCode::bad_input;
    if (ranks_fit) note([&] { look_at_memory(); });
  }

  RunCheck check;

 private:
  // Whether `part` found no problem.
  template <typename Part>
  bool note(Part part) {
    try {
      part();
      return true;
    } catch (const UserError& error) {
      if (error.code == ExitCode::stopped) throw;
      check.problems.emplace_back(error.what());
      if (check.code != ExitCode::bad_input) check.code = error.code;
      return false;
    }
  }

  void open_data() {
    std::unique_ptr<checkpoint::Reader> resumed;
    try {
      if (!config_.train.initial_weights.empty()) resumed = open_resumed(options_, config_.checkpoint.folder);
    } catch (const UserError&) {
      return;  // look_at_checkpoint() notes it
    }
    data_ = data::data_of_family(config_).open(train::with_initial_statistics(config_, resumed.get(), /*says=*/false));
    check.samples = data_->samples_in_epoch();
  }

  void look_at_checkpoint() {
    const std::unique_ptr<checkpoint::Reader> resumed = open_resumed(options_, config_.checkpoint.folder);
    if (!resumed) return;
    check.checkpoint = resumed->path();
    check.steps_done = resumed->step();
    if (note([&] { train::check_resumed_config(config_, *resumed); })) {
      note([&] { train::check_resumed_tensors(config_, *resumed, train::Depth::checksums); });
    }
    if (!data_) return;
    Json identity = data_->identity();
    note([&] { train::check_resumed_data(*data_, identity, *resumed); });
  }

  void look_at_memory() {
    const at::Device device = options_.world != nullptr ? train::choose_device(config_.train.device, *options_.world)
                                                        : train::choose_device_of_threads(config_.train.device, ranks_,
                                                                                          "train.device = \"cpu\"");
    const plan::AvailableMemory available = available_memory(device);
    check.device = device.is_cuda() ? "cuda" : "cpu";
    check.memory_bytes = available.gpu.value_or(available.machine);
    const config::Config there = train::on_device(config_, device);
    check.need = plan::least_memory(there, ranks_, here_, available.ranks_together(here_));
    check.largest = plan::least_memory(there, ranks_, here_, 1);
    check_memory(config_, ranks_, here_, device);
  }

  const config::Config& config_;
  const RunOptions& options_;
  int64_t ranks_, here_;
  std::unique_ptr<data::Source> data_;
};

}  // namespace

RunCheck check_run(const config::Config& config, const RunOptions& options) {
  if (options.world == nullptr) {
    RunChecker checker(config, options, options.ranks, options.ranks);
    checker.run();
    return checker.check;
  }
  comm::World& world = *options.world;
  return train::abort_on_error(world, [&] {
    const auto all = world.connect(mesh::all_ranks("control", world.size()));
    train::check_same(*all, start_facts(config, options));
    train::check_same_files(*all, world.ranks_per_node(), [&] { return file_facts(config); });
    RunChecker checker(config, options, world.size(), world.ranks_per_node());
    const std::string checkpoint = train::broadcast_result(*all, [&]() -> std::string {
      checker.run();
      return checker.check.checkpoint.string();
    });
    if (checkpoint.empty()) {
      train::check_same_files(*all, world.ranks_per_node(), [&] { return initial_weights_facts(config); });
    }
    return checker.check;
  });
}

}  // namespace terrace::run
