// Halves the range of each stage's number, of all stages at the same time.
#include "terrace/plan/memory/fewest_recomputed.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "terrace/config/phases.h"
#include "terrace/plan/memory/copied_states.h"
#include "terrace/plan/memory/stage_memory.h"

namespace terrace::plan {
namespace {

// The stage fits with `fitting` layers, or that is all of them; it does not fit with `below`.
struct Range {
  int64_t below = -1, fitting = 0;

  bool is_found() const { return below + 1 == fitting; }
  // The first number to try is 0, since the memory falls with the number only from 1 on: what recompute brings back of
  // one layer is memory too.
  int64_t middle() const { return below < 0 ? 0 : (below + fitting) / 2; }
};

double rank_bytes(const PlannedRun& run, int64_t stage) {
  const StageMemory memory = stage_memory(run, stage, {});
  return memory.total() + (run.config.train.device == "cuda" ? 0 : copied_bytes(run, stage, memory));
}

// The run in each phase, and before the first one.
std::vector<PlannedRun> runs_of(const config::Config& config, int64_t ranks, int64_t here) {
  std::vector<PlannedRun> runs;
  for (size_t phase = 0; phase <= config.phases.size(); ++phase) {
    runs.emplace_back(config::in_phase(config, phase), ranks, here);
  }
  return runs;
}

}  // namespace

config::RecomputeLayers fewest_recomputed(PlannedRun run, const StageFits& fits) {
  using Word = config::RecomputeLayers::Word;
  if (run.config.train.recompute == config::Recompute::none) return {.word = Word::numbers, .numbers = {0}};
  std::vector<Range> ranges;
  for (int64_t stage = 0; stage < run.placement.stages; ++stage) {
    ranges.push_back({.fitting = run.recomputable_layers(stage)});
  }
  config::RecomputeLayers layers{.word = Word::numbers};
  for (bool searching = true; searching;) {
    layers.numbers.clear();
    for (const Range& range : ranges) layers.numbers.push_back(range.is_found() ? range.fitting : range.middle());
    run.take_recompute_layers(layers);
    searching = false;
    for (int64_t stage = 0; stage < run.placement.stages; ++stage) {
      Range& range = ranges[static_cast<size_t>(stage)];
      if (range.is_found()) continue;
      const int64_t tried = layers.numbers[static_cast<size_t>(stage)];
      (fits(run, stage) ? range.fitting : range.below) = tried;
      searching = searching || !range.is_found();
    }
  }
  for (size_t stage = 0; stage < ranges.size(); ++stage) layers.numbers[stage] = ranges[stage].fitting;
  return layers;
}

std::vector<double> needed_by_stage(const config::Config& config, const config::RecomputeLayers& layers, int64_t ranks,
                                    int64_t here) {
  std::vector<double> bytes(static_cast<size_t>(config.layout.pipeline));
  for (PlannedRun& run : runs_of(config, ranks, here)) {
    run.take_recompute_layers(layers);
    for (size_t stage = 0; stage < bytes.size(); ++stage) {
      bytes[stage] = std::max(bytes[stage], rank_bytes(run, static_cast<int64_t>(stage)));
    }
  }
  return bytes;
}

config::RecomputeLayers fewest_recomputed(const config::Config& config, const std::vector<double>& bytes_of_stage,
                                          int64_t ranks, int64_t here) {
  config::RecomputeLayers most;
  for (const PlannedRun& run : runs_of(config, ranks, here)) {
    const config::RecomputeLayers own = fewest_recomputed(run, [&](const PlannedRun& tried, int64_t stage) {
      return rank_bytes(tried, stage) <= bytes_of_stage.at(static_cast<size_t>(stage));
    });
    if (most.numbers.empty()) most = own;
    for (size_t i = 0; i < most.numbers.size(); ++i) most.numbers[i] = std::max(most.numbers[i], own.numbers[i]);
  }
  return most;
}

}  // namespace terrace::plan
