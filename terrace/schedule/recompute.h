// Says which segments of a model the backward pass computes again: train.recompute says how much of a segment, and
// layout.recompute_layers how many segments of each stage. No choice changes a bit of a training.
#pragma once

#include <cstdint>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/schedule/partition.h"
#include "terrace/schedule/pipeline/placement.h"

namespace terrace::schedule {

// How much of each segment of the model is computed again, by segment.
using SegmentRecompute = std::vector<config::Recompute>;

// The segments of the stage that can be computed again, in the order in which layout.recompute_layers takes them: the
// chunks and, within a chunk, the layers from the first on. The first chunk keeps its micro-batches longest. The first
// layers of a chunk have their backward last, when the layers behind them have released what they kept, so that what
// recompute brings back takes its place. Segments of no layer, and the one with the loss, whose backward follows at
// once, are never computed again. A part of a layer that is divided between two stages counts as a layer of each.
std::vector<int64_t> recomputable_segments(const Partition& partition, const Placement& placement, int64_t stage);

// The choice of a configuration; "fit", which plan::fewest_recomputed() replaces by numbers, counts as "all". A single
// number is that of all stages, and a stage with fewer layers recomputes all of them. Throws UserError if the list has
// another size than the stages or a number for a stage that has fewer layers.
SegmentRecompute segment_recompute(const Partition& partition, const Placement& placement,
                                   const config::Config& config);

}  // namespace terrace::schedule
