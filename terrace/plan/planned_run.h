// The parts of a run that its memory and its times are computed from: its layout, unit tables and pipeline.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/machine/software.h"
#include "terrace/mesh/mesh.h"
#include "terrace/mesh/shards.h"
#include "terrace/schedule/partition.h"
#include "terrace/schedule/pipeline/pipeline.h"
#include "terrace/schedule/rank_share.h"
#include "terrace/schedule/recompute.h"
#include "terrace/schedule/resolved_layout.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::plan {

// A unit table with what is computed from it once.
struct PlannedTable {
  // `of_largest` is the table of the largest micro-batch; empty: it is as large as the others.
  PlannedTable(schedule::UnitTable table, const config::LayoutConfig& layout, schedule::UnitTable of_largest = {});

  schedule::UnitTable rows, largest_rows;  // the latter is empty if both are equal
  // The sizes, by unit, of the parameters on one rank: elements, and elements with each parameter padded to the
  // alignment of flat buffers without and with quantized movements (mesh::parameter_alignment).
  struct Sizes {
    std::vector<int64_t> elements, aligned, aligned_to_blocks;
  };

  Sizes dense;                       // of the parameters that are neither of the following
  std::optional<Sizes> always_fp32;  // of those that are fp32 in every precision; none: there are none
  std::optional<Sizes> experts;      // of those of experts that ranks divide; none: there are none
};

// A flat buffer of a segment on one rank: its parameters of one type, of experts that ranks divide or of what is beside
// them, which are cut over different ranks.
struct PlannedFlat {
  int64_t elements = 0, padded = 0;
  config::Precision precision = config::Precision::fp32;  // of the weights
  bool of_experts = false;
};

// The flat buffers of a segment in the order in which their movements begin; those without elements are left out.
struct PlannedFlats {
  std::array<PlannedFlat, 3> list = {};
  size_t count = 0;

  void add(const PlannedFlat& flat) {
    if (flat.padded > 0) list.at(count++) = flat;
  }
  const PlannedFlat* begin() const { return list.data(); }
  const PlannedFlat* end() const { return list.data() + count; }
};

// The unit table of the configuration, with these micro-batches on each data-parallel rank.
PlannedTable planned_table(const config::Config& config, const schedule::MicroBatchSizes& micro_batch);
// The partition by which training divides the model. The costs of units have nearly the same proportions in
// micro-batches of all sizes; a family whose samples differ divides by the costs of one average sample.
schedule::Partition planned_partition(const config::Config& config, const PlannedTable& table);

// The parts that many layouts have in common, so that a search computes them once; null: computed here.
struct SharedParts {
  std::shared_ptr<const PlannedTable> table;             // of the configuration
  std::shared_ptr<const schedule::Partition> partition;  // of the table over the layout's virtual stages
};

// The configuration as the program divides it: with equal numbers of layers in all stages if the numbers allow it.
config::Config divided(config::Config config, const machine::Software& software);

struct PlannedRun : schedule::ResolvedLayout {
  // Throws UserError if the configuration does not fit the ranks, see schedule/rank_share.h.
  PlannedRun(const config::Config& config, int64_t ranks, int64_t ranks_per_node, SharedParts shared = {});

  // The unit tables of one micro-batch on one rank: that of average size, from which times are computed, and the
  // largest, for which memory is needed.
  const schedule::UnitTable& table() const { return table_->rows; }
  const schedule::UnitTable& largest_table() const {
    return table_->largest_rows.empty() ? table() : table_->largest_rows;
  }

  PlannedFlats flats(int64_t segment) const;
  // The groups over which the flat buffer is cut.
  const mesh::ShardSizes& sizes_of(const PlannedFlat& flat) const { return flat.of_experts ? *expert_sizes : sizes; }
  // The sum of value(flat) over the flat buffers of all segments that a stage holds, each divided by the ranks over
  // which the member of its sizes says that it is cut.
  template <typename Value>
  double stage_sum(int64_t stage, int64_t mesh::ShardSizes::*cut_over, const Value& value) const {
    int64_t dense = 0, experts = 0;
    for (const int64_t segment : stages.at(static_cast<size_t>(stage)).held) {
      for (const PlannedFlat& flat : flats(segment)) (flat.of_experts ? experts : dense) += value(flat);
    }
    const double sum = static_cast<double>(dense) / static_cast<double>(sizes.*cut_over);
    return experts == 0 ? sum : sum + static_cast<double>(experts) / static_cast<double>((*expert_sizes).*cut_over);
  }
  // Elements of the parameters of a segment on one rank, and padded as in its flat buffers.
  int64_t elements(int64_t segment) const;
  int64_t padded_elements(int64_t segment) const;
  bool has_two_types() const;  // 16-bit weights and fp32 ones beside them
  // Bytes of the segment's whole weights, and of those that are gathered before they are used; and of its whole
  // gradients that are cut over ranks after each micro-batch.
  int64_t weight_bytes(int64_t segment) const;
  int64_t gathered_bytes(int64_t segment) const;
  int64_t reduced_bytes(int64_t segment) const;
  // The elements of all segments that a stage holds.
  int64_t stage_elements(int64_t stage) const;
  // Bytes of the buffers of the units that a stage computes.
  int64_t buffer_bytes(int64_t stage) const;
  // Movements go by this route.
  void take_route(config::Routing route);
  // Attention goes by this route, so tables and partition are computed again.
  void take_context_route(config::ContextRoute route);
  // So many layers of each stage are recomputed. Throws UserError as schedule::segment_recompute() does.
  void take_recompute_layers(config::RecomputeLayers layers);
  // How much of the segment is computed again.
  config::Recompute recompute_of(int64_t segment) const { return recompute_[static_cast<size_t>(segment)]; }
  // The layers of the stage that are recomputed, and that can be: schedule::recomputable_segments().
  int64_t recomputed_layers(int64_t stage) const;
  int64_t recomputable_layers(int64_t stage) const;
  // Whether some layers of the stage are recomputed and some are not.
  bool recomputes_partly(int64_t stage) const;
  // The segments of a chunk, in order.
  const std::vector<int64_t>& chunk(int64_t stage, int64_t chunk) const;

  config::Config config;
  schedule::Pipeline pipeline;

 private:
  PlannedRun(const config::Config& config, const mesh::Mesh& mesh, SharedParts shared);
  int64_t sum(const std::vector<int64_t>& by_unit, int64_t segment) const;
  // The padded elements of the segment's flat buffer with these parameters, which so many ranks hold.
  int64_t padded(const PlannedTable::Sizes& sizes, int64_t segment, int64_t ranks) const;

  std::shared_ptr<const PlannedTable> table_;
  schedule::SegmentRecompute recompute_;
};

}  // namespace terrace::plan
