// Runs a training from a checked configuration to its last checkpoint, with ranks as threads or as processes.
#include "terrace/run/run_training.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/temporary_name.h"
#include "terrace/base/files/texts_read.h"
#include "terrace/base/system/crash_reports.h"
#include "terrace/base/system/start_watch.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/json.h"
#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/checkpoint/memory_recovery.h"
#include "terrace/comm/threads/threads.h"
#include "terrace/config/family.h"
#include "terrace/machine/machine.h"
#include "terrace/nn/precision.h"
#include "terrace/observe/memory.h"
#include "terrace/observe/run_process.h"
#include "terrace/plan/memory/memory_need.h"
#include "terrace/run/choices.h"
#include "terrace/run/crash_folder.h"
#include "terrace/run/hooks/hooks.h"
#include "terrace/run/resumed_checkpoint.h"
#include "terrace/run/run_facts.h"
#include "terrace/run/shared_folder.h"
#include "terrace/run/start_checks.h"
#include "terrace/run/start_facts.h"
#include "terrace/schedule/description.h"
#include "terrace/train/agreement.h"
#include "terrace/train/device.h"
#include "terrace/train/initial_weights.h"
#include "terrace/train/left_out_steps.h"
#include "terrace/train/prepare_machine.h"
#include "terrace/train/rewind.h"
#include "terrace/train/world_options.h"

namespace terrace::run {
namespace {

namespace fs = std::filesystem;

// Restores the whole state from `resumed`, or only the weights from train.initial_weights, if either is given.
void restore_state(train::Trainer& trainer, const checkpoint::Reader* resumed) {
  const std::string& initial_weights = trainer.config().train.initial_weights;
  const Activity activity("reading the checkpoint that the run begins with");
  if (resumed != nullptr) {
    trainer.resume(*resumed);
    if (trainer.rank() == 0) log_info("continues from {}", resumed->path().string());
  } else if (!initial_weights.empty()) {
    trainer.take_initial_weights(checkpoint::Reader(checkpoint::resolve(initial_weights)));
    if (trainer.rank() == 0) log_info("starts from the weights of {}", initial_weights);
  }
}

// Steps that an earlier start found to be spikes and left out, which its last checkpoint may not know yet.
void restore_left_out_steps(train::Trainer& trainer, const std::string& resume) {
  const std::string& folder = trainer.config().checkpoint.folder;
  const std::string steps = train::broadcast_result(*trainer.cut().groups.control, [&] {
    if (resume.empty()) train::remove_left_out_steps(folder);
    return Json(train::read_left_out_steps(folder)).dump();
  });
  trainer.leave_out_steps(Json::parse(steps).get<std::set<int64_t>>());
}

// The settings and facts that all ranks of a run share.
struct Start {
  RunInputs inputs;
  plan::MemoryNeed need;     // on the first rank only
  plan::MemoryNeed largest;  // of one rank; on the first rank only
  train::Peak peak;
  ops::KernelChoice kernels;
  profile::RankThreads* threads = nullptr;                     // if ranks are threads
  std::shared_ptr<const schedule::UnitTable> units = nullptr;  // which they share
  CrashReports& crash;
};

void log_run_settings(train::Trainer& trainer, const Start& start) {
  const train::Peak& peak = start.peak;
  const plan::MemoryNeed& need = start.need;
  const int threads = at::get_num_threads();
  const int64_t micro_batch = trainer.micro_batch();
  const Sizes& budget = trainer.config().train.micro_batch_sizes;
  const std::string& samples = trainer.config().family->samples;
  log_info("{} parameters, {}, micro-batches of {}{}", format_count(nn::whole_elements(trainer.model().parameters())),
           counted(threads, "thread"),
           !budget.empty() ? "up to " + sizes_text(budget)
                           : fmt::format("{} {}", micro_batch,
                                         plural(static_cast<uint64_t>(micro_batch), singular(samples), samples)),
           peak.known() ? fmt::format("; {}: {}", peak.name, format_flops(peak.flops_per_second)) : "");
  log_info("memory{}: {} for {}, {} for activations{}{}",
           need.ranks > 1 ? fmt::format(" of {} ranks together", need.ranks) : "",
           format_bytes(need.states + need.copies), need.states_text(), format_bytes(need.activations),
           trainer.device().is_cpu() ? fmt::format(", {} beside tensors", format_bytes(need.beside)) : "",
           need.ranks > 1 ? fmt::format("; {} for the largest rank", format_bytes(start.largest.all())) : "");
  if (trainer.mesh().size() == 1) return;
  log_info("{} ranks with {} each:\n{}", trainer.mesh().size(), counted(threads, "thread"),
           mesh::overview(trainer.mesh(), parallel::shown_groups(trainer.mesh(), trainer.cut().groups.place.sizes)));
}

bool fits_recompute(const config::Config& config) {
  return config.train.recompute != config::Recompute::none &&
         config.layout.recompute_layers.word == config::RecomputeLayers::Word::fit;
}

// The bytes that the rank can still take of its device's memory. The memory of a process that its allocator keeps for
// the next step is not left.
double memory_left(const Start& start, const at::Device& device, const comm::World& world) {
  if (start.inputs.options.memory_left) return start.inputs.options.memory_left(world);
  if (device.is_cuda()) return static_cast<double>(train::available_bytes(device));
  const int64_t taken_again = observe::peak_resident_bytes() - observe::resident_bytes();
  return static_cast<double>(std::max<int64_t>(0, observe::available_bytes() - taken_again)) /
         static_cast<double>(world.ranks_per_node());
}

// One rank of a run, from its first step to its last.
RunResult run_trainer(train::Trainer& trainer, const Start& start, comm::World& world, Measuring measuring,
                      std::unique_ptr<train::Hook> fit_recompute) {
  const bool is_reporting_rank = world.rank() == 0;
  if (is_reporting_rank) log_run_settings(trainer, start);
  restore_state(trainer, start.inputs.resumed);
  restore_left_out_steps(trainer, start.inputs.options.resume);
  trainer.saving_group().barrier({.what = "load checkpoint"}).wait();  // the saving group waits without a time limit
  take_texts("");                                                      // all small files of the start are read
  if (is_reporting_rank) write_run_facts(trainer);
  if (fit_recompute) trainer.add_hook(std::move(fit_recompute));
  add_standard_hooks(trainer, start.inputs.options.began, &world);
  trainer.add_hook(make_measure_hook(trainer, std::move(measuring)));
  if (start.inputs.options.profile_steps > 0) {
    trainer.add_hook(make_profile_hook(trainer, start.inputs.options.profile_steps, start.inputs.options.report_profile,
                                       start.threads));
  }
  if (start.inputs.options.stop_after > 0) trainer.add_hook(make_stop_after_hook(start.inputs.options.stop_after));
  if (start.inputs.options.prepare) start.inputs.options.prepare(trainer);
  if (start.inputs.options.only_starts) {
    trainer.start();
    return {.step = trainer.steps_done(), .stop_reason = "before its first step"};
  }
  const bool had_all_steps = trainer.all_steps_done();
  start.crash.arm();
  trainer.run();
  if (had_all_steps && is_reporting_rank) {
    log_info("the run had made all its steps up to {}: there is nothing to do; raise train.steps to train on",
             start.inputs.config.train.steps);
  }
  // The name is computed, since this machine may not see the checkpoint of another rank's machine yet.
  return {.checkpoint = fs::path(start.inputs.config.checkpoint.folder) / checkpoint::step_name(trainer.steps_done()),
          .step = trainer.steps_done(),
          .finished = trainer.finished(),
          .stop_reason = trainer.finished()              ? ""
                         : trainer.stop_reason().empty() ? "on request"
                                                         : trainer.stop_reason()};
}

RunResult run_rank(const Start& start, const at::Device& device, comm::World& world) {
  std::optional<machine::Machine> machine =
      train::abort_on_error(world, [&] { return predicted_machine(start.inputs, device, world); });
  // The meter counts the rank's tensors from the first one until the measured steps are over.
  const auto meter = std::make_shared<memory::Meter>(device.type());
  auto metered = std::make_unique<c10::DebugInfoGuard>(c10::DebugInfoKind::PROFILER_STATE, meter);
  const config::Config config = train::abort_on_error(world, [&] { return with_route(start.inputs, machine, world); });
  std::unique_ptr<train::Hook> fit_recompute;
  if (fits_recompute(config)) {
    const auto left = [&] { return memory_left(start, device, world); };
    fit_recompute = make_fit_recompute_hook(left(), left);
  }
  train::Trainer trainer(config, start.peak, start.kernels, &world, start.units);
  return train::abort_on_error(world, [&] {
    return run_trainer(trainer, start, world,
                       {.meter = meter,
                        .end = [&] { metered.reset(); },
                        .machine = std::move(machine),
                        .all_ranks = start.inputs.options.profile_steps > 0 && world.size() > 1,
                        .later_by = world.size() > 1 ? start.inputs.options.profile_steps : 0,
                        .report_ranks = start.inputs.options.report_ranks},
                       std::move(fit_recompute));
  });
}

// The file in the run's folder that says which process trains there, and how that ended.
class RunRecord {
 public:
  RunRecord(std::string folder, int64_t ranks, int64_t steps_done)
      : folder_(std::move(folder)), trainer_(observe::this_run_process(ranks)) {
    trainer_.step = steps_done;
    observe::write_run_process(folder_, trainer_);
  }

  // Trains and records how that ends.
  template <typename Train>
  RunResult of(Train&& train) {
    const AtForcedEnd forced([&](const std::string& reason) { ended(observe::ProcessState::stopped, reason); });
    try {
      RunResult result = train();
      trainer_.step = result.step;
      ended(result.finished ? observe::ProcessState::finished : observe::ProcessState::stopped, result.stop_reason);
      return result;
    } catch (const UserError& error) {
      const bool is_stop = error.code == ExitCode::stopped;
      ended(is_stop ? observe::ProcessState::stopped : observe::ProcessState::failed, error.what());
      throw;
    } catch (const std::exception& error) {
      ended(observe::ProcessState::failed, error.what());
      throw;
    }
  }

 private:
  void ended(observe::ProcessState state, const std::string& reason) {
    trainer_.state = state;
    trainer_.reason = reason;
    observe::write_run_process(folder_, trainer_);
  }

  std::string folder_;
  observe::RunProcess trainer_;
};

// Trains, and reports an exception that ends the run, other than a mistake of the user that is found before it trains.
template <typename Train>
auto reported(CrashReports& crash, Train&& train) {
  try {
    return train();
  } catch (const train::Refusal&) {
    throw;
  } catch (const UserError& error) {
    if (crash.armed() && error.code != ExitCode::stopped) crash.report(error);
    throw;
  } catch (const std::exception& error) {
    crash.report(error);
    throw;
  }
}

RunResult run_threads(const RunInputs& inputs, const RunCheck& found, const at::Device& device) {
  const config::Config& config = inputs.config;
  const int64_t ranks = inputs.options.ranks;
  profile::RankThreads threads;
  const Activity activity("measuring the speed of this machine and building the model");
  const train::Peak peak = choose_peak(inputs, threads_of_rank(inputs, ranks), device);
  CrashReports crash(new_crash_folder(config.checkpoint.folder), [&](const Crash& one) {
    write_crash(one, {.config = config, .ranks = ranks, .build_facts = inputs.options.build_facts});
  });
  const Start start{.inputs = inputs,
                    .need = found.need,
                    .largest = found.largest,
                    .peak = peak,
                    .kernels = choose_kernels(inputs, device),
                    .threads = &threads,
                    .units = std::make_shared<const schedule::UnitTable>(schedule::unit_table(config)),
                    .crash = crash};
  RunResult result;
  train::end_idle_threads();
  // A thread that ended with the Refusal would make all ranks write their last calls, which nobody needs then.
  std::mutex mutex;
  std::optional<train::Refusal> refusal;
  std::optional<train::Rewind> rewind;
  reported(crash, [&] {
    comm::run_threads(ranks, train::world_options(config), [&](comm::World& own) {
      threads.add(own.rank());
      name_thread_of_crashes(fmt::format("rank {}", own.rank()));
      try {
        const std::unique_ptr<comm::World> wrapped = inputs.options.decorate ? inputs.options.decorate(own) : nullptr;
        RunResult of_rank = run_rank(start, device, wrapped ? *wrapped : own);
        if (own.rank() == 0) result = std::move(of_rank);
      } catch (const train::Refusal& all_know) {
        const std::lock_guard lock(mutex);
        if (!refusal || *all_know.what() != '\0') refusal = all_know;
      } catch (const train::Rewind& all_know) {
        const std::lock_guard lock(mutex);
        rewind = all_know;
      }
    });
  });
  if (refusal) throw train::Refusal(*refusal);
  if (rewind) throw train::Rewind(*rewind);
  return result;
}

// Makes a checkpoint of copies in memory that an earlier start of this run left, if they are newer than the last one.
void recover_copies(const config::Config& config, const checkpoint::SavingRanks& ranks) {
  const config::CheckpointConfig& own = config.checkpoint;
  const Activity activity("looking for copies of the states in the memory of the nodes");
  checkpoint::recover_from_memory(own.memory_folder, own.folder, host_name(),
                                  {.keep = own.keep, .keep_every = own.keep_every}, ranks);
}

RunResult run_as_threads(const config::Config& config, const RunOptions& options) {
  const at::Device device =
      train::choose_device_of_threads(config.train.device, options.ranks, "train.device = \"cpu\"");
  StartChecks checks(config, options, options.ranks, options.ranks);
  if (checks.claim_known_folder()) recover_copies(config, checkpoint::SavingRanks(nullptr));
  checks.begin(device);
  RunRecord record(config.checkpoint.folder, options.ranks, checks.found.steps_done);
  return record.of([&] {
    const config::Config with_statistics = train::with_initial_statistics(config, checks.resumed.get(), /*says=*/true);
    const RunInputs inputs{.config = with_statistics, .options = options, .resumed = checks.resumed.get()};
    return run_threads(inputs, checks.found, device);
  });
}

RunResult run_as_process(const config::Config& config, const RunOptions& options, comm::World& world) {
  const auto all = world.connect(mesh::all_ranks("control", world.size()));
  check_same_start(*all, world.ranks_per_node(), config, options);
  const at::Device device = train::choose_device(config.train.device, world);
  train::bind_near(device);
  const bool first = world.rank() == 0;
  std::optional<StartChecks> checks;  // these two on the first rank only
  std::optional<RunRecord> record;
  const std::string may_recover = train::broadcast_result(*all, [&] {
    checks.emplace(config, options, world.size(), world.ranks_per_node());
    return checks->claim_known_folder() ? "yes" : "";
  });
  if (!may_recover.empty()) {
    const auto recovery = world.connect(mesh::all_ranks("recovery", world.size()));
    recovery->lift_time_limit();  // the time of a write to disk has no bound
    try {
      recover_copies(config, checkpoint::SavingRanks(recovery.get()));
    } catch (const UserError& error) {
      throw train::Refusal(first ? error.what() : "", error.code);  // which all ranks know of
    }
  }
  std::string small_files;  // descriptions of data, tokenizers and manifests of checkpoints that the checks have read
  const std::string checkpoint = train::broadcast_result(*all, [&]() -> std::string {
    const NotedTexts noted;
    checks->begin(device);
    record.emplace(config.checkpoint.folder, world.size(), checks->found.steps_done);
    small_files = noted.bytes();
    return checks->found.checkpoint.string();
  });
  take_texts(train::broadcast_text(*all, std::move(small_files), 0, "small files"));
  const std::string place = first ? new_crash_folder(config.checkpoint.folder).string() : "";
  CrashReports crash(train::broadcast_text(*all, place, 0, "folder for a crash"), [&](const Crash& one) {
    write_crash(one,
                {.config = config, .rank = world.rank(), .ranks = world.size(), .build_facts = options.build_facts});
  });
  name_thread_of_crashes(fmt::format("rank {}", world.rank()));
  const auto train = [&] {
    check_shared_folder(*all, config.checkpoint.folder);
    std::unique_ptr<checkpoint::Reader> own;
    if (checkpoint.empty()) {
      train::check_same_files(*all, world.ranks_per_node(), [&] { return initial_weights_facts(config); });
    } else {
      own = open_chosen(world, *all, checkpoint, options);
    }
    const checkpoint::Reader* resumed = first ? checks->resumed.get() : own.get();
    const config::Config with_statistics = train::with_initial_statistics(config, resumed, /*says=*/first);
    const RunInputs inputs{.config = with_statistics, .options = options, .resumed = resumed};
    const Activity activity("measuring the speed of this machine and building the model");
    const int64_t threads = threads_of_rank(inputs, world.size(), &world);
    const train::Peak peak = choose_peak(inputs, threads, device, *all);
    const Start start{.inputs = inputs,
                      .need = first ? checks->found.need : plan::MemoryNeed{},
                      .largest = first ? checks->found.largest : plan::MemoryNeed{},
                      .peak = peak,
                      .kernels = choose_kernels(inputs, device, *all),
                      .crash = crash};
    return run_rank(start, device, world);
  };
  return reported(crash, [&] { return first ? record->of(train) : train(); });
}

// One start of a run.
RunResult start_once(const config::Config& config, const RunOptions& options) {
  try {
    if (!options.world) return run_as_threads(config, options);
    return train::abort_on_error(*options.world, [&] { return run_as_process(config, options, *options.world); });
  } catch (const comm::CommError& error) {
    const std::optional<fs::path> newest = checkpoint::newest(config.checkpoint.folder);
    throw comm::CommError(fmt::format("{}. {}", error.what(),
                                      newest ? fmt::format("Continue from {} with --resume auto", newest->string())
                                             : "There is no checkpoint yet to continue from"));
  }
}

// How often the run went back to the same checkpoint in a row, by what all ranks know.
class Rewinds {
 public:
  void add(const train::Rewind& rewind) {
    using Cause = train::Rewind::Cause;
    const bool again = in_a_row_ > 0 && rewind.began_after == last_.began_after && rewind.cause == last_.cause;
    in_a_row_ = again ? in_a_row_ + 1 : 1;
    last_ = rewind;
    const int64_t most = rewind.cause == Cause::corruption ? 3 : train::most_skipped;
    if (in_a_row_ <= most) return;
    const std::string text = fmt::format("{}. The run went back to step {} {} times in a row already and stops",
                                         rewind.reason, rewind.began_after, most);
    if (rewind.cause == Cause::corruption) throw train::CorruptionError(text);
    throw std::runtime_error(text +
                             "; continue with a lower optimizer.learning_rate or a higher train.spike_threshold");
  }

 private:
  int64_t in_a_row_ = 0;
  train::Rewind last_ = {};
};

}  // namespace

RunResult run_training(const config::Config& config, const RunOptions& options) {
  RunOptions next = options;
  Rewinds rewinds;
  while (true) {
    try {
      return start_once(config, next);
    } catch (const train::Rewind& rewind) {
      rewinds.add(rewind);
      if (!options.world || options.world->rank() == 0) {
        log_warning("{}. The run begins again from its newest checkpoint", rewind.reason);
      }
      next.resume = "auto";
      next.profile_steps = 0;  // a profile that is not done yet would be of other steps
    }
  }
}

}  // namespace terrace::run
