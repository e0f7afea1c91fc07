// Times the movements of each segment's flat buffers.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "terrace/plan/time/predicted_costs.h"

namespace terrace::plan {

using schedule::Movement;
using schedule::StepInstruction;
using Kind = StepInstruction::Kind;

namespace {

constexpr size_t num_movements = static_cast<size_t>(Movement::publish) + 1;
constexpr size_t num_hops = static_cast<size_t>(schedule::Hop::rails) + 1;

}  // namespace

void PredictedCosts::time_movements() {
  const MovementTimes times(run_.config, run_.mesh, run_.sizes, machine_, algorithms_);
  config::Config in_fp32 = run_.config;
  in_fp32.train.precision = config::Precision::fp32;
  const MovementTimes fp32_times(in_fp32, run_.mesh, run_.sizes, machine_, algorithms_);
  std::optional<MovementTimes> expert_times;
  if (run_.expert_sizes) {
    expert_times.emplace(run_.config, run_.mesh, *run_.expert_sizes, machine_, algorithms_, run_.config.layout.experts);
  }
  const bool deterministic = run_.config.layout.deterministic;
  // The time of a movement of the flat buffers of a segment, one after another. Those of experts go by one call, with
  // the first of two hops.
  const auto time_of = [&](Movement movement, schedule::Hop hop, const PlannedFlats& flats) {
    MovementTime sum;
    for (const PlannedFlat& flat : flats) {
      if (!schedule::movements_of(run_.sizes_of(flat), deterministic).has(movement)) continue;
      const bool is_first = schedule::is_first_hop({.kind = Kind::begin_movement, .movement = movement, .hop = hop});
      if (flat.of_experts && !is_first) continue;
      const MovementTimes& own = flat.of_experts                                 ? *expert_times
                                 : flat.precision == run_.config.train.precision ? times
                                                                                 : fp32_times;
      const MovementTime time = own.of(movement, flat.of_experts ? schedule::Hop::whole : hop, flat.padded);
      sum.seconds += time.seconds;
      sum.bytes += time.bytes;
      sum.coding += time.coding;
      sum.tier = std::max(sum.tier, time.tier);
    }
    return sum;
  };
  const schedule::Movements all = run_.movements(run_.config.layout);
  movements_.resize(num_movements * num_hops);
  std::map<std::vector<int64_t>, size_t> known;  // by padded elements of the flat buffers: a segment with such
  for (size_t number = 0; number < run_.partition().segments.size(); ++number) {
    const PlannedFlats flats = run_.flats(static_cast<int64_t>(number));
    std::vector<int64_t> key;
    for (const PlannedFlat& flat : flats) {
      key.insert(key.end(), {flat.padded, static_cast<int64_t>(flat.precision), static_cast<int64_t>(flat.of_experts)});
    }
    if (const auto [same, is_new] = known.emplace(std::move(key), number); !is_new) {
      for (std::vector<MovementTime>& by_segment : movements_) {
        if (!by_segment.empty()) by_segment.push_back(by_segment[same->second]);
      }
      continue;
    }
    for (size_t movement = 0; movement < num_movements; ++movement) {
      for (const schedule::Hop hop : all.hops(static_cast<Movement>(movement))) {
        MovementTime time = time_of(static_cast<Movement>(movement), hop, flats);
        // A sum of whole gradients is a reduction and a gather, which take equally long.
        if (software_.sums_whole_gradients && static_cast<Movement>(movement) == Movement::reduce_across) {
          time.seconds *= 2;
          time.bytes *= 2;
        }
        movements_[movement * num_hops + static_cast<size_t>(hop)].push_back(time);
      }
    }
  }
}

MovementTime PredictedCosts::movement(const StepInstruction& one) const {
  const size_t call = static_cast<size_t>(one.movement) * num_hops + static_cast<size_t>(one.hop);
  return movements_[call][static_cast<size_t>(one.segment)];
}

double PredictedCosts::adding_seconds(const StepInstruction& instruction) const {
  const auto gradient = static_cast<double>(config::element_bytes(run_.config.train.gradient_type));
  double elements = 0;
  for (const PlannedFlat& flat : run_.flats(instruction.segment)) {
    const mesh::ShardSizes& sizes = run_.sizes_of(flat);
    const int64_t parts = run_.config.layout.deterministic ? sizes.ranks : sizes.gradients;
    if (parts > 1) elements += static_cast<double>(flat.padded) / static_cast<double>(parts);
  }
  return 3 * gradient * elements / machine_.device.memory_bandwidth;
}

}  // namespace terrace::plan
