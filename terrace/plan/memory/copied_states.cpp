// Counts the bytes of what a rank saves, and how often it is held.
#include "terrace/plan/memory/copied_states.h"

namespace terrace::plan {
namespace {

// The elements of the optimizer states that a rank of the stage holds, with the padding of its flat buffers, which
// copies save too.
double own_elements(const PlannedRun& run, int64_t stage) {
  return run.stage_sum(stage, &mesh::ShardSizes::optimizer, [](const PlannedFlat& flat) { return flat.padded; });
}

// Common weights and momentum in fp32.
constexpr double common_bytes = 8;

}  // namespace

double saved_bytes(const PlannedRun& run, int64_t stage, const StageMemory& memory) {
  const double elements =
      run.stage_sum(stage, &mesh::ShardSizes::ranks, [](const PlannedFlat& flat) { return flat.elements; });
  double bytes = checkpoint_bytes_per_parameter * elements +
                 static_cast<double>(run.buffer_bytes(stage)) / static_cast<double>(run.sizes.ranks) +
                 memory.of(MemoryKind::feedback);
  if (run.sizes.has_local_copies()) bytes += (checkpoint_bytes_per_parameter + common_bytes) * own_elements(run, stage);
  return bytes;
}

double local_copies_bytes(const PlannedRun& run, int64_t stage) {
  if (!run.sizes.has_local_copies()) return 0;
  const double of_copy = own_elements(run, stage) * static_cast<double>(run.sizes.optimizer * run.config.layout.tensor);
  const int64_t whole_copies = run.sizes.ranks / run.sizes.optimizer;
  const auto copies = static_cast<double>(whole_copies);
  return (checkpoint_bytes_per_parameter * copies + common_bytes) * of_copy;
}

StateCopies state_copies(const config::CheckpointConfig& checkpoint, bool on_gpus) {
  const int64_t in_memory = checkpoint.memory_every > 0 ? 1 : 0;
  return {.written = (on_gpus ? in_memory : 0) + (checkpoint.saves_beside_training() ? 1 : 0), .files = 2 * in_memory};
}

double copied_bytes(const PlannedRun& run, int64_t stage, const StageMemory& memory) {
  const bool on_one_node = is_one_node(run.config, run.mesh.size(), run.mesh.topology().ranks_per_node);
  const bool on_gpus = run.config.train.device == "cuda";
  const int64_t times = state_copies(run.config.checkpoint, on_gpus).times(on_one_node);
  return times == 0 ? 0 : static_cast<double>(times) * saved_bytes(run, stage, memory);
}

bool is_one_node(const config::Config& config, int64_t ranks, int64_t here) {
  const int64_t set = config.layout.ranks_per_node;
  return ranks <= (set > 0 ? set : here);
}

}  // namespace terrace::plan
