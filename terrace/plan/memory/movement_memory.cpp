// Counts what terrace/parallel/collective.cpp and transfer.cpp allocate.
#include "terrace/plan/memory/movement_memory.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/config/wire_type.h"
#include "terrace/plan/time/predicted_costs.h"
#include "terrace/schedule/pipeline/pipeline.h"

namespace terrace::plan {
namespace {

using config::Precision;
using config::WireType;
using schedule::Hop;
using schedule::Instruction;
using schedule::Movement;
using schedule::StepInstruction;
using Kind = StepInstruction::Kind;

constexpr int64_t sum_bytes = 4;  // of an fp32 sum

// Whether the elements of a buffer are sent as they are.
bool preserves(WireType type, Precision kept) {
  return type == WireType::same || (type == WireType::fp32 && kept == Precision::fp32) ||
         (type == WireType::bf16 && kept == Precision::bf16);
}

CallMemory unchanging(int64_t bytes) { return {.beginning = bytes, .moving = bytes, .ending = bytes}; }

// The memory of a gather over so many ranks, each of which has `values` values in the beginning. The payload of a
// rank's own values is sent, the payloads of all ranks are received and then decoded.
CallMemory gather_memory(WireType type, Precision kept, int64_t values, int64_t ranks, Hop hop) {
  if (preserves(type, kept)) return {};
  const int64_t own = config::wire_bytes(type, values, config::element_bytes(kept)), all = ranks * own;
  if (hop == Hop::node) return unchanging(all);
  CallMemory memory = unchanging(own + all);
  if (hop == Hop::rails) memory.after = all;
  return memory;
}

// The memory of a gather by rails whose payloads are decoded between the hops: `values` of each of `node` x `nodes`
// ranks go between nodes in one type, and the values that then arrived go inside the node in another.
CallMemory gather_memory_of_two_types(WireType between_nodes, WireType inside, Precision kept, int64_t values,
                                      int64_t node, int64_t nodes, Hop hop) {
  if (hop == Hop::rails) return unchanging((1 + nodes) * config::wire_bytes(between_nodes, values, 0));
  if (preserves(inside, kept)) return {};
  return unchanging((1 + node) * config::wire_bytes(inside, nodes * values, config::element_bytes(kept)));
}

// A sum of several ranks' gradients.
struct Reduction {
  WireType type;
  WireType type_inside;  // of the first hop by rails
  Precision kept;
  int64_t values;  // values that each rank has in the end
  int64_t inner, outer;
  bool feeds_back;

  int64_t element_of(WireType summed) const {
    return summed == WireType::same ? config::element_bytes(kept) : summed == WireType::bf16 ? 2 : 4;
  }
  int64_t element() const { return element_of(type); }
  // Beside the payloads that are made meanwhile, error feedback has two fp32 copies of a part, its payload and its
  // errors. A CPU takes a part in pieces, where it is larger than 65,536 values for each thread.
  int64_t feedback(int64_t part) const {
    if (!feeds_back) return 0;
    return 2 * sum_bytes * part + config::wire_bytes(type, part, 0) + config::wire_bytes(WireType::int8, part, 0);
  }
  // Every rank sends a payload to each and receives one from each. Those sent are freed before those received are
  // added in fp32, apart from the result where that has another type.
  CallMemory exchange(int64_t part, int64_t ranks, bool encodes_own, bool sums_in_place) const {
    const int64_t payloads = ranks * config::wire_bytes(type, part, 0), sums = sums_in_place ? 0 : sum_bytes * part;
    return {.beginning = payloads + std::max(payloads, encodes_own ? feedback(part) : 0),
            .moving = 2 * payloads,
            .ending = payloads + std::max(payloads, sums)};
  }
};

// The values of each hop's result are those of all outer ranks after the first hop.
CallMemory reduction_memory(const Reduction& one, Hop hop) {
  const bool is_exchange = config::is_quantized(one.type), in_place = preserves(one.type, one.kept);
  const int64_t between = one.values * one.outer;
  const bool ends_in_fp32 = one.kept == Precision::fp32;
  if (hop == Hop::whole) {
    if (is_exchange) return one.exchange(one.values, one.inner, true, ends_in_fp32);
    return unchanging(in_place ? 0 : one.element() * one.values * (one.inner + 1));
  }
  const int64_t sums = between * (config::is_quantized(one.type_inside) ? sum_bytes : one.element_of(one.type_inside));
  if (hop == Hop::node) {
    CallMemory memory = is_exchange ? one.exchange(between, one.inner, true, true)
                                    : unchanging(in_place ? 0 : one.element() * between * one.inner);
    for (int64_t* bytes : {&memory.beginning, &memory.moving, &memory.ending, &memory.after}) *bytes += sums;
    return memory;
  }
  if (!is_exchange) return unchanging(sums + (in_place ? 0 : one.element() * one.values));
  CallMemory memory = one.exchange(one.values, one.outer, false, ends_in_fp32);
  memory.beginning += sums;  // the sums are sent encoded
  return memory;
}

// The memory of an all-reduce. It is one call, or in a quantized type an exchange and a gather of the sums; the gather
// begins and ends while the rank waits.
CallMemory all_reduce_memory(const Reduction& one) {
  if (!config::is_quantized(one.type)) {
    return unchanging(preserves(one.type, one.kept) ? 0 : one.element() * one.values * one.inner);
  }
  CallMemory memory = one.exchange(one.values, one.inner, true, one.kept == Precision::fp32);
  memory.ending = std::max(memory.ending, gather_memory(one.type, one.kept, one.values, one.inner, Hop::whole).moving);
  return memory;
}

// The computations of a stage for so many micro-batches: of several stages in the order of 1F1B, in which every two
// computations follow each other that do so in the steady state.
schedule::Instructions computations(const PlannedRun& run, int64_t micro_batches) {
  schedule::Pipeline pipeline = run.pipeline;
  pipeline.micro_batches = micro_batches;
  if (pipeline.stages == 1) return schedule::instructions(pipeline).front();
  const bool defers =
      pipeline.schedule == config::PipelineSchedule::zb_h1 || pipeline.schedule == config::PipelineSchedule::zb_v;
  const int64_t chunks = run.placement.chunks;
  schedule::Instructions list;
  const auto forward = [&](int64_t micro_batch) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      list.push_back({.kind = Instruction::Kind::forward, .micro_batch = micro_batch, .chunk = chunk});
    }
  };
  const auto backward = [&](int64_t micro_batch) {
    for (int64_t chunk = chunks - 1; chunk >= 0; --chunk) {
      list.push_back({.kind = defers ? Instruction::Kind::input_gradient : Instruction::Kind::backward,
                      .micro_batch = micro_batch,
                      .chunk = chunk});
      if (!defers) continue;
      list.push_back({.kind = Instruction::Kind::weight_gradient, .micro_batch = micro_batch, .chunk = chunk});
    }
  };
  forward(0);
  for (int64_t next = 1; next < micro_batches; ++next) {
    forward(next);
    backward(next - 1);
  }
  backward(micro_batches - 1);
  list.push_back({.kind = Instruction::Kind::optimizer_step});
  return list;
}

// Whether any movement of the parameters with these sizes can take memory.
bool takes_memory(const PlannedRun& run, const mesh::ShardSizes& sizes) {
  const config::LayoutConfig& layout = run.config.layout;
  const schedule::Movements movements = schedule::movements_of(sizes, layout.deterministic);
  const Precision weights = run.config.train.precision, gradients = run.config.train.gradient_type;
  const auto changes = [&](Movement movement, Precision kept) {
    return std::ranges::any_of(movements.hops(movement), [&](Hop hop) {
      return !preserves(schedule::wire_type(layout, sizes, movement, hop), kept);
    });
  };
  const auto changes_weights = [&](Movement movement) {
    return changes(movement, weights) || (run.has_two_types() && changes(movement, Precision::fp32));
  };
  return (movements.gathers && changes_weights(Movement::gather_weights)) ||
         (movements.publishes && changes_weights(Movement::publish)) ||
         std::ranges::any_of(movements.reductions(), [&](Movement one) { return changes(one, gradients); }) ||
         (movements.reduces_each && run.pipeline.micro_batches > 1) || movements.has_two_hops(Movement::reduce) ||
         movements.has_two_hops(Movement::reduce_across);
}

}  // namespace

CallMemory call_memory(const PlannedRun& run, const StepInstruction& instruction, const PlannedFlat& flat) {
  const config::LayoutConfig& layout = run.config.layout;
  const mesh::ShardSizes& sizes = run.sizes_of(flat);
  const int64_t padded = flat.padded;
  const Precision weights = flat.precision;
  const bool deterministic = layout.deterministic;
  const Precision gradients = run.config.train.gradient_type;
  const auto type_of = [&](Hop hop) { return schedule::wire_type(layout, sizes, instruction.movement, hop); };
  const WireType type = type_of(instruction.hop);
  const auto gather = [&](int64_t values, int64_t inner, int64_t outer) {
    const int64_t ranks = outer / inner, node = sizes.rails_node / inner;
    if (instruction.hop == Hop::whole || type_of(Hop::node) == type_of(Hop::rails)) {
      return gather_memory(type, weights, values, ranks, instruction.hop);
    }
    return gather_memory_of_two_types(type_of(Hop::rails), type_of(Hop::node), weights, values, node, ranks / node,
                                      instruction.hop);
  };
  // A sum over outer / inner ranks, which divides the buffer into `outer` parts where there were `inner`.
  const auto reduction = [&](int64_t inner, int64_t outer) {
    const bool hops = instruction.hop != Hop::whole;
    const int64_t here = hops ? sizes.rails_node / inner : outer / inner;
    return Reduction{.type = type,
                     .type_inside = hops ? type_of(Hop::node) : type,
                     .kept = gradients,
                     .values = padded / outer,
                     .inner = here,
                     .outer = hops ? outer / sizes.rails_node : 1,
                     .feeds_back = layout.error_feedback};
  };
  switch (instruction.movement) {
    case Movement::gather_weights:
      return gather(padded / sizes.weights, 1, sizes.weights);
    case Movement::publish:
      return gather(padded / sizes.optimizer, sizes.weights, sizes.optimizer);
    case Movement::reduce: {
      const int64_t parts = deterministic ? sizes.ranks : sizes.gradients;
      CallMemory memory = reduction_memory(reduction(1, parts), instruction.hop);
      if (!instruction.accumulates) return memory;
      const int64_t sum = padded / parts * config::element_bytes(gradients);
      for (int64_t* bytes : {&memory.beginning, &memory.moving, &memory.ending}) *bytes += sum;
      if (!schedule::is_last_hop(instruction)) memory.after += sum;
      return memory;
    }
    case Movement::reduce_across:
      return reduction_memory(reduction(sizes.gradients, sizes.optimizer), instruction.hop);
    case Movement::reduce_replicas:
      return all_reduce_memory(reduction(sizes.optimizer, sizes.ranks));
    case Movement::gather_gradients:
      return {};  // these sums keep their type
  }
  TERRACE_CHECK(false, "movement {}", static_cast<int>(instruction.movement));
}

// The memory of a movement that takes one call, in a list whose movements may take two: it is made with the first, and
// a sum that is to be added waits for the second.
CallMemory memory_of_one_call(const PlannedRun& run, StepInstruction instruction, const PlannedFlat& flat) {
  if (instruction.hop == Hop::whole) return call_memory(run, instruction, flat);
  const bool is_first = schedule::is_first_hop(instruction);
  instruction.hop = Hop::whole;
  const mesh::ShardSizes& sizes = run.sizes_of(flat);
  const int64_t parts = run.config.layout.deterministic ? sizes.ranks : sizes.gradients;
  const int64_t sum = instruction.movement == Movement::reduce && instruction.accumulates
                          ? flat.padded / parts * config::element_bytes(run.config.train.gradient_type)
                          : 0;
  if (!is_first) return {.beginning = sum, .moving = sum, .ending = sum};
  CallMemory memory = call_memory(run, instruction, flat);
  memory.after += sum;
  return memory;
}

CallMemory call_memory(const PlannedRun& run, const StepInstruction& instruction) {
  std::vector<CallMemory> calls;
  CallMemory memory;
  for (const PlannedFlat& flat : run.flats(instruction.segment)) {
    const schedule::Movements own = schedule::movements_of(run.sizes_of(flat), run.config.layout.deterministic);
    if (!own.has(instruction.movement)) continue;
    calls.push_back(flat.of_experts ? memory_of_one_call(run, instruction, flat) : call_memory(run, instruction, flat));
    // The calls before this one are under way.
    memory.beginning = std::max(memory.beginning, memory.moving + calls.back().beginning);
    memory.moving += calls.back().moving;
  }
  int64_t moving = memory.moving;
  for (const CallMemory& call : calls) {
    moving -= call.moving;
    memory.ending = std::max(memory.ending, memory.after + call.ending + moving);
    memory.after += call.after;
  }
  return memory;
}

int64_t movement_bytes(const PlannedRun& run, int64_t stage, const machine::Software& software) {
  if (!takes_memory(run, run.sizes) && (!run.expert_sizes || !takes_memory(run, *run.expert_sizes))) return 0;
  const int64_t micro_batches = std::min<int64_t>(3, run.pipeline.micro_batches);
  const schedule::StepInstructions list =
      planned_list(run, computations(run, micro_batches), micro_batches, stage, software);
  std::map<std::pair<int64_t, Movement>, int64_t> taken;  // of segments, by those under way
  int64_t all = 0, most = 0;
  for (const StepInstruction& one : list) {
    const bool begins = one.kind == Kind::begin_movement;
    if (!begins && one.kind != Kind::end_movement) continue;
    const CallMemory memory = call_memory(run, one);
    int64_t& own = taken[{one.segment, one.movement}];
    most = std::max(most, all - own + (begins ? memory.beginning : memory.ending));
    all += (begins ? memory.moving : memory.after) - own;
    own = begins ? memory.moving : memory.after;
  }
  return most;
}

}  // namespace terrace::plan
