// Precedes each write of a state, to a disk or into the memory of nodes.
#pragma once

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/run/hooks/hooks.h"

namespace terrace::run {

// Makes the metrics so far durable; metrics that cannot be are a warning, since a state is worth more than their lines.
// `metrics` is null on ranks that write none.
void sync_metrics(const SharedMetrics& metrics);

// Refuses weights that are not finite (check_finite), and syncs the metrics.
void before_write(const checkpoint::State& state, const SharedMetrics& metrics);

}  // namespace terrace::run
