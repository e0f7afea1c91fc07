// Follows the computations that add to each gradient.
#include "terrace/schedule/pipeline/first_micro_batch.h"

#include <algorithm>
#include <set>

#include "terrace/base/error.h"
#include "terrace/config/names.h"
#include "terrace/schedule/description.h"
#include "terrace/schedule/pipeline/pipeline.h"
#include "terrace/schedule/rank_share.h"

namespace terrace::schedule {

int64_t first_mixed_segment(const StepInstructions& list, const StageSegments& segments) {
  using Kind = StepInstruction::Kind;
  std::set<int64_t> complete;  // for the first micro-batch
  for (const StepInstruction& one : list) {
    if (one.kind != Kind::loss && one.kind != Kind::backward && one.kind != Kind::weight_gradient) continue;
    for (const int64_t read : segments.reads.at(static_cast<size_t>(one.segment))) {
      if (one.micro_batch > 0 && std::ranges::binary_search(segments.held, read) && !complete.contains(read)) {
        return read;
      }
    }
    if (one.micro_batch > 0) continue;
    complete.insert(one.segment);
    if (one.kind == Kind::loss) complete.insert(segments.copies.begin(), segments.copies.end());
  }
  return -1;
}

void check_first_gradients(const config::Config& config, int64_t data_ranks) {
  const bool measures = config.train.noise_scale_every > 0;
  const char* key = measures ? "noise_scale_every" : "check_computation_every";
  const int64_t every = measures ? config.train.noise_scale_every : config.train.check_computation_every;
  if (every == 0) return;
  Pipeline pipeline = pipeline_of(config, data_ranks);
  if (pipeline.micro_batches == 1) return;
  // More do not change what is added before the first micro-batch is complete.
  pipeline.micro_batches = std::min(pipeline.micro_batches, 2 * pipeline.stages * pipeline.chunks);
  const Partition parts = partition(unit_table(config), config.layout);
  const std::vector<Instructions> lists = instructions(pipeline);
  for (int64_t stage = 0; stage < pipeline.stages; ++stage) {
    const StageSegments own = stage_segments(parts, placement(pipeline), stage);
    const StepInstructions list =
        training_step(lists[static_cast<size_t>(stage)], pipeline.micro_batches, own, Movements{});
    if (first_mixed_segment(list, own) < 0) continue;
    throw UserError::of(
        "train.{} = {} needs the gradient of a step's first micro-batch by itself, but with "
        "layout.schedule = \"{}\" stage {} adds those of later micro-batches to weights that the head shares before "
        "it is complete; use schedule = \"1f1b\", \"interleaved\" or \"zb-h1\", or {} = 0",
        key, every, config::name_of(pipeline.schedule), stage, key);
  }
}

}  // namespace terrace::schedule
