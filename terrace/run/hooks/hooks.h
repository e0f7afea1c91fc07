// Makes the hooks of a run; each hook is defined in a file of its own.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "terrace/comm/comm.h"
#include "terrace/machine/machine.h"
#include "terrace/memory/meter.h"
#include "terrace/observe/metrics.h"
#include "terrace/observe/operation_table.h"
#include "terrace/observe/rank_profiles.h"
#include "terrace/profile/operation_recorder.h"
#include "terrace/train/trainer.h"

namespace terrace::run {

using SharedMetrics = std::shared_ptr<observe::MetricsWriter>;

// A progress bar with loss and rate on a terminal; elsewhere a log line every train.log_every steps.
std::unique_ptr<train::Hook> make_log_hook(const train::Trainer& trainer);

// Warns of outputs that have had the same value for all inputs for twenty steps on end (observe/figures.h), and again
// after the last step.
std::unique_ptr<train::Hook> make_dead_outputs_hook(const train::Trainer& trainer);

// Writes a line of metrics.jsonl for each step, except skipped ones.
std::unique_ptr<train::Hook> make_metrics_hook(SharedMetrics metrics);

// Warns, after five seconds of steps and every minute, if the threads of this process waited for a tenth or more of
// their time for a core; again only if it has become worse.
std::unique_ptr<train::Hook> make_shared_cores_hook();

// Writes the peak into run.json again if a step has raised it, so that run.json and the metrics name the same peak.
std::unique_ptr<train::Hook> make_peak_hook(const train::Trainer& trainer);

// Writes the held-out loss every train.evaluate_every steps and at the end into the log and metrics.jsonl; does nothing
// if evaluate_every is 0. To be added after the hook that saves. A stop ends an evaluation without a result; a run that
// continues from the step of that evaluation makes it first, and a run without its last evaluation is not finished.
// `metrics` is null, here and below, on ranks that do not write metrics.
std::unique_ptr<train::Hook> make_evaluate_hook(SharedMetrics metrics);

// Saves a checkpoint every checkpoint.every steps, in the background unless checkpoint.background is false, and at the
// end. The metrics so far are made durable first. A checkpoint during training that cannot be saved is a warning; the
// one at the end throws.
std::unique_ptr<train::Hook> make_save_hook(train::Trainer& trainer, SharedMetrics metrics);

// Copies the states into the memory of this node and the next one every checkpoint.memory_every steps, which is not 0,
// and removes the copies at the end. To be added after the hook that saves. All ranks make it at the same place; the
// world outlives the hook.
std::unique_ptr<train::Hook> make_memory_hook(train::Trainer& trainer, SharedMetrics metrics, comm::World& world);

// The number of steps before the profiled ones, since the first steps take memory from the system and fill caches.
inline constexpr int64_t profile_warm_up = 2;

struct Profile {
  int64_t first_step = 0, last_step = 0;
  std::filesystem::path trace = {};  // in the run's folder, opens in Perfetto and chrome://tracing
  observe::OperationTable operations = {};
};

// The bytes that this rank can still take of the memory in which it computes; 0 where that is unknown.
using MemoryLeft = std::function<double()>;

// With layout.recompute_layers = "fit": recomputes as few layers of each stage as plan says that the memory allows,
// keeping a tenth of it free, and after the second, fourth and sixth step as few as the memory allows that is left
// then. All ranks of a stage follow the one with least memory. `left_before_model` is what the rank could take before
// its model was built. Every rank has this hook, which is to be the first that trains.
std::unique_ptr<train::Hook> make_fit_recompute_hook(double left_before_model, MemoryLeft left);

// Skips profile_warm_up steps, records the operations of the next `steps` steps, or fewer if the run ends before,
// writes the trace and calls `report`. To be added last, so that the work of the other hooks is in the trace. Every
// rank has this hook, but only the first rank's records: the trace has all ranks if they are threads, the table the
// first rank.
std::unique_ptr<train::Hook> make_profile_hook(const train::Trainer& trainer, int64_t steps,
                                               std::function<void(const Profile&)> report,
                                               const profile::RankThreads* threads = nullptr);

struct Measuring {
  std::shared_ptr<memory::Meter> meter;          // the meter of the rank's thread, from before the model was made
  std::function<void()> end = {};                // called when the meter is not needed any more
  std::optional<machine::Machine> machine = {};  // for the prediction; needed on the first rank
  // Whether profiles of all ranks are gathered too, and what the first rank does with them.
  bool all_ranks = false;
  // Steps by which the recorded ones come later, where the run has as many left: while the operations of the first rank
  // are recorded, it is slower.
  int64_t later_by = 0;
  std::function<void(const observe::ProfiledRanks&)> report_ranks = {};
};

// After profile_warm_up steps, records the next three instruction by instruction and writes the one with the median
// time as measured_step.json in the run's folder. With a machine it also writes predicted_step.json, logs how the two
// compare, and warns where they differ by more than a fifth. With `all_ranks` it also gathers what each rank's step
// went to, measures the links, and writes profile.json with the critical path of the step (rank_profiles.h). Every rank
// has this hook.
std::unique_ptr<train::Hook> make_measure_hook(train::Trainer& trainer, Measuring measuring);

// Times the steps of every rank, names ranks that compute more slowly than they should (observe/slow_ranks.h) and links
// that have become slow (link_probe.h) in the log and in slow.jsonl in the run's folder, and gives the trainer what the
// metrics say of them (docs/watching.md). Every rank of a run of at least two has this hook.
std::unique_ptr<train::Hook> make_watch_hook();

// Stops the run after the step, or the batch of an evaluation, that reaches train.time_limit, counted from `began`. An
// evaluation before the first step of a start is not cut short.
std::unique_ptr<train::Hook> make_time_limit_hook(std::chrono::steady_clock::time_point began);

// Stops the run after this step, or at once if it is past it. To be added last, so that the step is saved and
// evaluated.
std::unique_ptr<train::Hook> make_stop_after_hook(int64_t step);

// Adds the hooks that every run has, in the order that a run needs. Removes the lines of metrics.jsonl after the step
// that the run starts from. `world` connects the ranks that copy states into memory; without it none are copied.
void add_standard_hooks(train::Trainer& trainer,
                        std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now(),
                        comm::World* world = nullptr);

}  // namespace terrace::run
