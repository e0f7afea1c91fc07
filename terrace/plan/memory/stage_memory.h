// The memory that one rank of a pipeline stage needs, by category; docs/sharding.md and docs/cost_model.md have the
// formulas. The trainer's check before a start and every prediction use it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "terrace/machine/software.h"
#include "terrace/plan/planned_run.h"

namespace terrace::plan {

enum class MemoryKind {
  weights,
  gradients,
  optimizer,      // moments, and fp32 masters of 16-bit weights
  feedback,       // kept errors of quantized gradients
  activations,    // of the live micro-batches, and what is held for deferred weight gradients
  temporary,      // tensors that exist only while a unit is computed: logits, what recompute brings back
  gathers,        // whole weights of gathered segments, whole gradients before their reduction
  movements,      // payloads of movements in other types, and sums that are not yet those of all ranks
  communication,  // received and sent hidden states
  slack,          // what the allocator takes beyond the tensors
};
inline constexpr size_t num_memory_kinds = 10;
std::string_view name_of(MemoryKind kind);

// Bytes on one rank when most memory is taken, with micro-batches of the largest size.
struct StageMemory {
  std::array<double, num_memory_kinds> bytes = {};
  int64_t live_micro_batches = 0;  // micro-batches whose activations are kept at once

  double total() const;
  double states() const;  // weights, gradients, optimizer and feedback
  double& of(MemoryKind kind) { return bytes[static_cast<size_t>(kind)]; }
  double of(MemoryKind kind) const { return bytes[static_cast<size_t>(kind)]; }
};

// The bytes that a segment takes while it is computed, beside those that are kept: its temporary tensors and, in a
// backward with recompute, what its repeated forward saves.
double temporary_bytes(const PlannedRun& run, int64_t segment, bool backward);

StageMemory stage_memory(const PlannedRun& run, int64_t stage, const machine::Software& software);

}  // namespace terrace::plan
