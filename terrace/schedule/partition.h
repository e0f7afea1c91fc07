// How the units of a model are shared out over the parts of a pipeline, and the segments that they form there.
//
// A segment is what a rank handles as one: the consecutive units of one layer in one part of the pipeline, or one unit
// that belongs to no layer. Its units are computed together in one autograd graph; its parameters have one flat buffer,
// which is gathered, reduced and counted by prefetch as one; with recompute = "full" the segments of layers are
// computed again as one.
#pragma once

#include <cstdint>
#include <vector>

#include "terrace/schedule/placement.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::schedule {

// Numbers [begin, end) of units, or of segments.
struct NumberRange {
  int64_t begin = 0, end = 0;

  bool contains(int64_t number) const { return number >= begin && number < end; }
  int64_t size() const { return end - begin; }
  bool operator==(const NumberRange&) const = default;
};

struct Segment {
  NumberRange units;
  int64_t layer = -1;               // -1: of no layer
  std::vector<int64_t> reads = {};  // segments whose parameters its computation reads, itself included, ascending
  bool has_parameters = false;

  bool operator==(const Segment&) const = default;
};

struct Partition {
  std::vector<Segment> segments;   // in the order of the units
  std::vector<NumberRange> parts;  // segments of each part of the pipeline

  int64_t last() const { return static_cast<int64_t>(segments.size()) - 1; }
  const Segment& segment(int64_t number) const { return segments.at(static_cast<size_t>(number)); }
  const NumberRange& part(int64_t number) const { return parts.at(static_cast<size_t>(number)); }
};

// `layers_of_part` counts the layers of each part; units of no layer before the first layer are in the first part,
// others in the part of the layer before them. Empty: units are shared out by their forward FLOPs (split.h), so that a
// layer of two units may be in two parts. Throws UserError where there are more parts than units, or where the numbers
// given do not fit the model.
Partition partition(const UnitTable& table, int64_t parts, const std::vector<int64_t>& layers_of_part);

// The same for all stages of a pipeline.
Partition partition(const UnitTable& table, const config::LayoutConfig& layout);

// The segments that one stage computes and holds.
struct StageSegments {
  std::vector<std::vector<int64_t>> chunks;  // segments of each chunk, in order
  int64_t last = 0;                          // of the model, whose computation is the loss
  std::vector<std::vector<int64_t>> reads;   // by segment of the model: Segment::reads
  std::vector<int64_t> held;    // segments with parameters whose parameters are here, copies included, ascending
  std::vector<int64_t> copies;  // those of `held` that another stage computes and this one's last segment reads
};

StageSegments stage_segments(const Partition& partition, const Placement& placement, int64_t stage);

// Of all units of the segment, in order.
std::vector<UnitParameter> segment_parameters(const UnitTable& table, const Segment& segment);

// Bytes on one rank for one micro-batch of the segment's units: see UnitRow.
int64_t kept_bytes(const UnitTable& table, const Segment& segment, config::Recompute recompute);
int64_t deferred_bytes(const UnitTable& table, const Segment& segment);

}  // namespace terrace::schedule
