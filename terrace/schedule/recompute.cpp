// Counts the layers of each stage off in the order in which they are taken.
#include "terrace/schedule/recompute.h"

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/base/text/plural.h"

namespace terrace::schedule {
namespace {

using Word = config::RecomputeLayers::Word;

// The number of layers that the list names for a stage which has `layers`.
int64_t number_for(const config::RecomputeLayers& given, const Placement& placement, int64_t stage, int64_t layers) {
  if (given.word != Word::numbers) return layers;
  if (given.numbers.size() == 1) return std::min(given.numbers.front(), layers);
  if (std::ssize(given.numbers) != placement.stages) {
    throw UserError::of("layout.recompute_layers has {} numbers for {}; give one for each, or one for all",
                        given.numbers.size(), counted(static_cast<uint64_t>(placement.stages), "stage"));
  }
  const int64_t number = given.numbers[static_cast<size_t>(stage)];
  if (number <= layers) return number;
  throw UserError::of(
      "layout.recompute_layers has {} for stage {}, which has {} (or parts of layers) that can be recomputed; use at "
      "most {}",
      number, stage, counted(static_cast<uint64_t>(layers), "layer"), layers);
}

}  // namespace

std::vector<int64_t> recomputable_segments(const Partition& partition, const Placement& placement, int64_t stage) {
  std::vector<int64_t> segments;
  for (int64_t chunk = 0; chunk < placement.chunks; ++chunk) {
    const NumberRange& own = partition.virtual_stage(placement.virtual_stage(stage, chunk));
    for (int64_t number = own.begin; number < own.end; ++number) {
      if (partition.segment(number).layer >= 0 && number != partition.last()) segments.push_back(number);
    }
  }
  return segments;
}

SegmentRecompute segment_recompute(const Partition& partition, const Placement& placement,
                                   const config::Config& config) {
  SegmentRecompute recompute(partition.segments.size(), config::Recompute::none);
  if (config.train.recompute == config::Recompute::none) return recompute;
  for (int64_t stage = 0; stage < placement.stages; ++stage) {
    const std::vector<int64_t> segments = recomputable_segments(partition, placement, stage);
    const int64_t number = number_for(config.layout.recompute_layers, placement, stage, std::ssize(segments));
    for (int64_t i = 0; i < number; ++i) {
      recompute[static_cast<size_t>(segments[static_cast<size_t>(i)])] = config.train.recompute;
    }
  }
  return recompute;
}

}  // namespace terrace::schedule
