// Precedes each write of a state, to a disk or into the memory of nodes.
#pragma once

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/run/hooks/hooks.h"

namespace terrace::run {

// Refuses weights that are not finite (check_finite) and makes the metrics so far durable; metrics that cannot be are a
// warning, since the state is worth more than their lines. `metrics` is null on ranks that write none.
void before_write(const checkpoint::State& state, const SharedMetrics& metrics);

}  // namespace terrace::run
