// Adds up the rows of the unit table for one stage.
#include "terrace/plan/memory/stage_memory.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "terrace/config/wire_type.h"
#include "terrace/plan/memory/movement_memory.h"
#include "terrace/plan/time/outer_update.h"
#include "terrace/schedule/pipeline/compute_order.h"
#include "terrace/schedule/pipeline/live.h"
#include "terrace/schedule/step/step.h"

namespace terrace::plan {
namespace {

// Bytes of the hidden states that a chunk receives; 0 for the model's first.
int64_t received_bytes(const PlannedRun& run, int64_t stage, int64_t chunk) {
  const std::vector<int64_t>& segments = run.chunk(stage, chunk);
  if (segments.empty()) return 0;
  const int64_t first = run.partition().segment(segments.front()).units.begin;
  return first == 0 ? 0 : run.largest_table()[static_cast<size_t>(first - 1)].output_bytes;
}

// The results m x n, of all `count`, of those operations of a segment's forward that are asked for, for one
// micro-batch.
template <typename IsWanted>
double results_of(const PlannedRun& run, int64_t number, const IsWanted& is_wanted) {
  const schedule::Segment& segment = run.partition().segment(number);
  double results = 0;
  for (int64_t unit = segment.units.begin; unit < segment.units.end; ++unit) {
    for (const schedule::Operation& one : run.largest_table()[static_cast<size_t>(unit)].operations.forward) {
      if (!is_wanted(one)) continue;
      results += static_cast<double>(one.m) * static_cast<double>(one.n) * static_cast<double>(one.count);
    }
  }
  return results;
}

// Bytes of the scores that attention of one segment writes, if the program's attention is not fused.
double score_bytes(const PlannedRun& run, int64_t number, const machine::Software& software) {
  if (software.fused_attention) return 0;
  return software.score_memory * results_of(run, number, [](const schedule::Operation& one) {
           return one.kind == schedule::Operation::Kind::attention;
         });
}

// Bytes of the logits that the loss of a segment holds, for a program that states them.
double logit_bytes(const PlannedRun& run, int64_t number, const machine::Software& software) {
  if (software.logit_memory == 0) return 0;
  return software.logit_memory *
         results_of(run, number, [](const schedule::Operation& one) { return one.name == "logits"; });
}

// Bytes of a segment's activations that the program keeps for one micro-batch.
int64_t kept_by_program(const PlannedRun& run, int64_t number, const machine::Software& software) {
  const config::Recompute recompute = run.recompute_of(number);
  const schedule::Segment& segment = run.partition().segment(number);
  auto kept = static_cast<double>(schedule::kept_bytes(run.largest_table(), segment, recompute));
  if (recompute == config::Recompute::selective) kept *= software.selective_kept;
  if (recompute == config::Recompute::none) kept += score_bytes(run, number, software);
  return static_cast<int64_t>(kept);
}

// Bytes that a chunk takes for one micro-batch: from its forward to its backward, and from its input gradient to its
// weight gradients.
struct ChunkBytes {
  int64_t kept = 0, deferred = 0;
};

std::vector<ChunkBytes> chunk_bytes(const PlannedRun& run, int64_t stage, const machine::Software& software) {
  std::vector<ChunkBytes> chunks(static_cast<size_t>(run.placement.chunks));
  for (int64_t chunk = 0; chunk < run.placement.chunks; ++chunk) {
    ChunkBytes& own = chunks[static_cast<size_t>(chunk)];
    for (const int64_t number : run.chunk(stage, chunk)) {
      own.kept += kept_by_program(run, number, software);
      own.deferred += schedule::deferred_bytes(run.largest_table(), run.partition().segment(number));
    }
    if (software.sends_parts) own.kept += received_bytes(run, stage, chunk) / run.config.layout.tensor;
  }
  return chunks;
}

// The most that the stage's list keeps alive, where the chunks differ by what recompute leaves of them.
int64_t peak_of_list(const PlannedRun& run, int64_t stage, const std::vector<ChunkBytes>& chunks) {
  using Kind = schedule::Instruction::Kind;
  int64_t now = 0, peak = 0;
  for (const schedule::Instruction& one : schedule::compute_order(run.pipeline, stage)) {
    const ChunkBytes& bytes = chunks[static_cast<size_t>(one.chunk)];
    if (one.kind == Kind::forward) now += bytes.kept;
    if (one.kind == Kind::backward || one.kind == Kind::input_gradient) now -= bytes.kept;
    if (one.kind == Kind::input_gradient) now += bytes.deferred;
    if (one.kind == Kind::weight_gradient) now -= bytes.deferred;
    peak = std::max(peak, now);
  }
  return peak;
}

// Bytes of a stage's activations with the schedule's most live micro-batches. All chunks count with their mean size,
// unless recompute makes them unequal.
double activation_bytes(const PlannedRun& run, int64_t stage, const machine::Software& software,
                        int64_t& live_micro_batches) {
  const std::vector<ChunkBytes> chunks = chunk_bytes(run, stage, software);
  const schedule::Live live = schedule::live_bound(run.pipeline, stage);
  live_micro_batches = live.activations;
  if (chunks.size() > 1 && run.recomputes_partly(stage)) return static_cast<double>(peak_of_list(run, stage, chunks));
  ChunkBytes sum;
  for (const ChunkBytes& chunk : chunks) {
    sum.kept += chunk.kept;
    sum.deferred += chunk.deferred;
  }
  const int64_t mean = live.bytes(sum.kept, sum.deferred) / std::ssize(chunks);
  return static_cast<double>(mean);
}

// The bytes that the backward of a micro-batch has released when it comes to each segment of a chunk: those of the
// segments behind it, less what deferred weight gradients hold of them.
std::vector<double> released_bytes(const PlannedRun& run, int64_t stage, const machine::Software& software) {
  const std::vector<int64_t>& segments = run.chunk(stage, 0);
  const bool defers = schedule::live_bound(run.pipeline, stage).weight_inputs > 0;
  std::vector<double> released(segments.size());
  for (size_t i = segments.size(); i-- > 1;) {
    const int64_t behind = segments[i];
    const int64_t held = defers ? schedule::deferred_bytes(run.largest_table(), run.partition().segment(behind)) : 0;
    released[i - 1] =
        released[i] + static_cast<double>(std::max<int64_t>(0, kept_by_program(run, behind, software) - held));
  }
  return released;
}

// The most that one segment takes beside what is kept. Where a part of the layers is recomputed, a segment takes the
// place of what the segments behind it have released.
double most_temporary_bytes(const PlannedRun& run, int64_t stage, const machine::Software& software) {
  const auto& chunks = run.stages.at(static_cast<size_t>(stage)).chunks;
  const bool takes_place = chunks.size() == 1 && run.recomputes_partly(stage);
  const std::vector<double> released = takes_place ? released_bytes(run, stage, software) : std::vector<double>();
  double most = 0;
  for (const std::vector<int64_t>& chunk : chunks) {
    for (size_t i = 0; i < chunk.size(); ++i) {
      const int64_t segment = chunk[i];
      const bool keeps_scores = run.recompute_of(segment) == config::Recompute::none;
      const double scores = keeps_scores ? 0 : score_bytes(run, segment, software);
      const double backward = temporary_bytes(run, segment, true) + scores - (takes_place ? released[i] : 0);
      most = std::max({most, temporary_bytes(run, segment, false), backward, logit_bytes(run, segment, software)});
    }
  }
  return most;
}

// The largest sum of the sizes of `count` segments of the stage that follow one another.
template <typename SizeOf>
double largest_neighbours(const PlannedRun& run, int64_t stage, int64_t count, const SizeOf& size_of) {
  std::vector<int64_t> sizes;
  for (const std::vector<int64_t>& chunk : run.stages.at(static_cast<size_t>(stage)).chunks) {
    for (const int64_t number : chunk) sizes.push_back(size_of(number));
  }
  int64_t most = 0;
  for (size_t first = 0; first < sizes.size(); ++first) {
    const auto end =
        sizes.begin() + static_cast<std::ptrdiff_t>(std::min(sizes.size(), first + static_cast<size_t>(count)));
    most = std::max(most, std::accumulate(sizes.begin() + static_cast<std::ptrdiff_t>(first), end, int64_t{0}));
  }
  return static_cast<double>(most);
}

// One hidden state for each receive that is posted at a time, and one that is sent in each direction.
double communication_bytes(const PlannedRun& run, int64_t stage) {
  if (run.placement.virtual_stages() == 1) return 0;
  int64_t largest = 0;
  for (int64_t chunk = 0; chunk < run.placement.chunks; ++chunk) {
    const int64_t own = run.placement.virtual_stage(stage, chunk), last = run.placement.virtual_stages() - 1;
    largest = std::max(largest, received_bytes(run, stage, chunk));
    if (own == last) continue;
    const int64_t receiver = run.placement.stage_of(own + 1);
    largest = std::max(largest, received_bytes(run, receiver, run.placement.chunk_of(own + 1)));
  }
  constexpr int64_t posted_and_sent = 4;
  return static_cast<double>(posted_and_sent * largest);
}

// Error feedback keeps an int8 code for each element that a rank brings into a reduction.
double feedback_bytes(const PlannedRun& run, int64_t stage) {
  const config::LayoutConfig& layout = run.config.layout;
  int64_t bytes = 0;
  for (const int64_t segment : run.stages.at(static_cast<size_t>(stage)).held) {
    for (const PlannedFlat& flat : run.flats(segment)) {
      const mesh::ShardSizes& sizes = run.sizes_of(flat);
      for (const schedule::Movement movement : schedule::fed_back_reductions(layout, sizes)) {
        const int64_t values = schedule::reduced_elements(movement, sizes, flat.padded);
        bytes += config::wire_bytes(config::WireType::int8, values, 0);
      }
    }
  }
  return static_cast<double>(bytes);
}

// Whether the weights of the flat buffer are rounded when they are published.
bool publishing_rounds(const PlannedRun& run, const PlannedFlat& flat) {
  const config::LayoutConfig& layout = run.config.layout;
  const mesh::ShardSizes& sizes = run.sizes_of(flat);
  const schedule::Movements movements = schedule::movements_of(sizes, layout.deterministic);
  constexpr auto publish = schedule::Movement::publish;
  return movements.publishes && std::ranges::any_of(movements.hops(publish), [&](schedule::Hop hop) {
           return config::rounds(schedule::wire_type(layout, sizes, publish, hop),
                                 config::element_bytes(flat.precision));
         });
}

}  // namespace

std::string_view name_of(MemoryKind kind) {
  constexpr std::array<std::string_view, num_memory_kinds> names = {
      "weights",   "gradients", "optimizer", "feedback",      "activations",
      "temporary", "gathers",   "movements", "communication", "slack"};
  return names[static_cast<size_t>(kind)];
}

double StageMemory::total() const { return std::accumulate(bytes.begin(), bytes.end(), 0.0); }

double StageMemory::states() const {
  return of(MemoryKind::weights) + of(MemoryKind::gradients) + of(MemoryKind::optimizer) + of(MemoryKind::feedback);
}

double temporary_bytes(const PlannedRun& run, int64_t number, bool backward) {
  const schedule::Segment& segment = run.partition().segment(number);
  int64_t temporary = 0;
  for (int64_t unit = segment.units.begin; unit < segment.units.end; ++unit) {
    temporary = std::max(temporary, run.largest_table()[static_cast<size_t>(unit)].temporary_bytes);
  }
  if (!backward) return static_cast<double>(temporary);
  return static_cast<double>(temporary + schedule::kept_bytes(run.largest_table(), segment, config::Recompute::none) -
                             schedule::kept_bytes(run.largest_table(), segment, run.recompute_of(number)));
}

StageMemory stage_memory(const PlannedRun& run, int64_t stage, const machine::Software& software) {
  const config::TrainConfig& train = run.config.train;
  const int64_t gradient = config::element_bytes(train.gradient_type);
  // The optimizer keeps fp32 weights beside those that are computed with, where these are rounded.
  // Copies that make steps by themselves keep their common weights and a momentum, in fp32 too.
  const int64_t of_copies = run.sizes.has_local_copies() ? 8 : 0;
  const auto states = [&](const PlannedFlat& flat) {
    return 8 + of_copies + (config::element_bytes(flat.precision) < 4 || publishing_rounds(run, flat) ? 4 : 0);
  };
  using Sizes = mesh::ShardSizes;
  StageMemory memory;
  memory.of(MemoryKind::weights) = run.stage_sum(stage, &Sizes::weights, [](const PlannedFlat& flat) {
    return flat.elements * config::element_bytes(flat.precision);
  }) + static_cast<double>(run.buffer_bytes(stage));
  const int64_t copy = software.copies_gradients && gradient < 4 ? 4 : 0;
  memory.of(MemoryKind::gradients) = run.stage_sum(
      stage, &Sizes::gradients, [&](const PlannedFlat& flat) { return flat.elements * (gradient + copy); });
  memory.of(MemoryKind::optimizer) =
      run.stage_sum(stage, &Sizes::optimizer, [&](const PlannedFlat& flat) { return flat.elements * states(flat); });
  memory.of(MemoryKind::feedback) = feedback_bytes(run, stage);
  memory.of(MemoryKind::activations) = activation_bytes(run, stage, software, memory.live_micro_batches);
  memory.of(MemoryKind::temporary) = most_temporary_bytes(run, stage, software);
  const int64_t ahead = run.movements(run.config.layout).uses_ahead();
  memory.of(MemoryKind::gathers) =
      largest_neighbours(run, stage, 1 + ahead, [&](int64_t number) { return run.gathered_bytes(number); }) +
      largest_neighbours(run, stage, 2, [&](int64_t number) { return run.reduced_bytes(number); });
  memory.of(MemoryKind::movements) =
      static_cast<double>(std::max(movement_bytes(run, stage, software), outer_update_bytes(run, stage)));
  memory.of(MemoryKind::communication) = communication_bytes(run, stage);
  memory.of(MemoryKind::slack) = software.allocator_slack * (memory.total() - memory.states());
  return memory;
}

}  // namespace terrace::plan
