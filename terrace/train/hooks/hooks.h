// The hooks a run has: each is one file, and each is made by one function.
#pragma once

#include <chrono>
#include <memory>

#include "terrace/observe/metrics.h"
#include "terrace/train/trainer.h"

namespace terrace::train {

using SharedMetrics = std::shared_ptr<observe::MetricsWriter>;

// A progress bar with loss and rate on a terminal; elsewhere a log line every train.log_every steps.
std::unique_ptr<Hook> make_log_hook(const Trainer& trainer);

// A line of metrics.jsonl a step; steps that were passed over have none.
std::unique_ptr<Hook> make_metrics_hook(SharedMetrics metrics);

// The held-out loss every train.evaluate_every steps and at the end, into the log and metrics.jsonl; nothing where
// evaluate_every is 0.
std::unique_ptr<Hook> make_evaluate_hook(SharedMetrics metrics);

// A checkpoint every checkpoint.every steps, written beside training unless checkpoint.background is false, and at the
// end, after the metrics so far are durable. One on the way that cannot be saved is a warning; the run's end throws
// where its own cannot.
std::unique_ptr<Hook> make_save_hook(const Trainer& trainer, SharedMetrics metrics);

// Stops the run after the step that reaches train.time_limit, counted from `began`.
std::unique_ptr<Hook> make_time_limit_hook(std::chrono::steady_clock::time_point began);

// All of them in the order that a run needs. Lines of metrics.jsonl after the step that the run starts from are cut
// off.
void add_standard_hooks(Trainer& trainer,
                        std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now());

}  // namespace terrace::train
