// The hooks a run has: each is one file, and each is made by one function.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>

#include "terrace/observe/metrics.h"
#include "terrace/observe/operation_table.h"
#include "terrace/profile/operation_recorder.h"
#include "terrace/train/trainer.h"

namespace terrace::train {

using SharedMetrics = std::shared_ptr<observe::MetricsWriter>;

// A progress bar with loss and rate on a terminal; elsewhere a log line every train.log_every steps.
std::unique_ptr<Hook> make_log_hook(const Trainer& trainer);

// A line of metrics.jsonl a step; steps that were passed over have none.
std::unique_ptr<Hook> make_metrics_hook(SharedMetrics metrics);

// Writes the peak into run.json again where a step has raised it, so that it is the one of the metrics.
std::unique_ptr<Hook> make_peak_hook(const Trainer& trainer);

// The held-out loss every train.evaluate_every steps and at the end, into the log and metrics.jsonl; nothing where
// evaluate_every is 0. To be added after the hook that saves. A stop ends an evaluation without a result; a run that
// continues from its step makes it first, and a run whose last evaluation is missing is not finished. On ranks that do
// not write, metrics are null here and below.
std::unique_ptr<Hook> make_evaluate_hook(SharedMetrics metrics);

// A checkpoint every checkpoint.every steps, written beside training unless checkpoint.background is false, and at the
// end, after the metrics so far are durable. One on the way that cannot be saved is a warning; the run's end throws
// where its own cannot.
std::unique_ptr<Hook> make_save_hook(Trainer& trainer, SharedMetrics metrics);

// Steps before those that are profiled: the first ones take memory from the system and fill caches.
inline constexpr int64_t profile_warm_up = 2;

struct Profile {
  int64_t first_step = 0, last_step = 0;
  std::filesystem::path trace = {};  // in the run's folder, opens in Perfetto and chrome://tracing
  observe::OperationTable operations = {};
};

// Records the operations of `steps` steps after profile_warm_up others, writes the trace and calls `report`; of a run
// that ends before, with those that there were. To be the last hook, so that what the others do is in the trace. Every
// rank has one and the first one's records: all ranks into the trace where they are threads, itself into the table.
std::unique_ptr<Hook> make_profile_hook(const Trainer& trainer, int64_t steps,
                                        std::function<void(const Profile&)> report,
                                        const profile::RankThreads* threads = nullptr);

// Stops the run after the step, or the batch of an evaluation, that reaches train.time_limit, counted from `began`. An
// evaluation before the first step of a start is not cut short.
std::unique_ptr<Hook> make_time_limit_hook(std::chrono::steady_clock::time_point began);

// All that every run has, in the order that a run needs. Lines of metrics.jsonl after the step that the run starts from
// are cut off.
void add_standard_hooks(Trainer& trainer,
                        std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now());

}  // namespace terrace::train
