// Divides the units of a model among the virtual stages of a pipeline (placement.h) and groups them into segments.
//
// A segment is the consecutive units of one layer in one virtual stage, or a single unit that belongs to no layer. The
// units of a segment are computed in one autograd graph. The parameters of a segment share one flat buffer, which is
// gathered and reduced as a whole and counts as one for prefetch. With recompute = "full" a segment of a layer is
// recomputed as a whole.
#pragma once

#include <cstdint>
#include <vector>

#include "terrace/schedule/pipeline/placement.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::schedule {

// The numbers [begin, end) of units or of segments.
struct NumberRange {
  int64_t begin = 0, end = 0;

  bool contains(int64_t number) const { return number >= begin && number < end; }
  int64_t size() const { return end - begin; }
  bool operator==(const NumberRange&) const = default;
};

struct Segment {
  NumberRange units;
  int64_t layer = -1;               // -1: belongs to no layer
  std::vector<int64_t> reads = {};  // segments whose parameters its computation reads, itself included, ascending
  bool has_parameters = false;

  bool operator==(const Segment&) const = default;
};

struct Partition {
  std::vector<Segment> segments;            // in the order of the units
  std::vector<NumberRange> virtual_stages;  // the segments of each virtual stage

  int64_t last() const { return static_cast<int64_t>(segments.size()) - 1; }
  const Segment& segment(int64_t number) const { return segments.at(static_cast<size_t>(number)); }
  const NumberRange& virtual_stage(int64_t number) const { return virtual_stages.at(static_cast<size_t>(number)); }
};

// `layers_of_stage` is the number of layers of each virtual stage. Units before the first layer are then in the first
// virtual stage; every other unit that belongs to no layer is in the virtual stage of the layer before it. If
// `layers_of_stage` is empty, units are divided by their forward FLOPs (split.h), and the two units of a layer may be
// in two virtual stages. Throws UserError if there are more virtual stages than units or if the numbers of layers do
// not fit the model.
Partition partition(const UnitTable& table, int64_t virtual_stages, const std::vector<int64_t>& layers_of_stage);

// Divides the model with the numbers that the layout gives.
Partition partition(const UnitTable& table, const config::LayoutConfig& layout);

// Throws UserError if recompute = "full" would repeat nothing, since no layer is in a segment without the loss.
void check_recompute(const Partition& partition, config::Recompute recompute);

// The segments that one stage computes and holds.
struct StageSegments {
  std::vector<std::vector<int64_t>> chunks;  // segments of each chunk, in order
  int64_t last = 0;                          // the model's last segment, whose forward computes the loss
  std::vector<std::vector<int64_t>> reads;   // by segment of the model: Segment::reads
  std::vector<int64_t> held;                 // segments whose parameters this stage holds, copies included, ascending
  std::vector<int64_t> copies;  // segments of `held` that another stage computes and a segment of this stage reads
};

StageSegments stage_segments(const Partition& partition, const Placement& placement, int64_t stage);

// The parameters of all units of the segment, in order.
std::vector<UnitParameter> segment_parameters(const UnitTable& table, const Segment& segment);

// Bytes of the segment's units on one rank for one micro-batch: the sums of UnitRow's fields of these names.
int64_t kept_bytes(const UnitTable& table, const Segment& segment, config::Recompute recompute);
int64_t deferred_bytes(const UnitTable& table, const Segment& segment);

}  // namespace terrace::schedule
