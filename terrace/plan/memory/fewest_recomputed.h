// Chooses how few layers each stage recomputes so that it fits into the memory of a device.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/plan/planned_run.h"

namespace terrace::plan {

// Whether the stage fits with the layers that the run recomputes.
using StageFits = std::function<bool(const PlannedRun& run, int64_t stage)>;

// For each stage the fewest layers with which it fits; all of them where it does not fit even so. The stages do not
// depend on each other: a stage that keeps more micro-batches in flight recomputes more of its layers. Nothing is
// recomputed where train.recompute is "none".
config::RecomputeLayers fewest_recomputed(PlannedRun run, const StageFits& fits);

// The bytes that one rank of each stage needs with so many layers recomputed, in the phase that needs most: all that
// plan counts, and on CPUs the copy that is written beside training. `here` neighbouring ranks are on one machine.
std::vector<double> needed_by_stage(const config::Config& config, const config::RecomputeLayers& layers, int64_t ranks,
                                    int64_t here);

// The fewest layers with which one rank of each stage needs at most as many bytes in every phase.
config::RecomputeLayers fewest_recomputed(const config::Config& config, const std::vector<double>& bytes_of_stage,
                                          int64_t ranks, int64_t here);

}  // namespace terrace::plan
