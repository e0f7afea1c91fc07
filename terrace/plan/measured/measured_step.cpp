// Simulates a step from measured times, for the present division of the layers and for one by their measured times.
#include "terrace/plan/measured/measured_step.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/mesh/shards.h"
#include "terrace/schedule/pipeline/pipeline.h"
#include "terrace/schedule/step/split.h"

namespace terrace::plan {
namespace {

using schedule::StepInstruction;
using Kind = StepInstruction::Kind;

constexpr double least_gain = 0.01;

// The times of a measured step by what they belong to, so that another division of the layers has times too.
class MeasuredTimes {
 public:
  MeasuredTimes(const schedule::ResolvedLayout& layout, const schedule::UnitTable& table,
                const MeasuredStages& measured)
      : of_stage_(measured.size()), units_(table.size()) {
    const schedule::Partition& partition = layout.partition();
    for (size_t stage = 0; stage < measured.size(); ++stage) {
      for (const MeasuredInstruction& one : measured[stage]) {
        if (one.kind == Kind::begin_movement) {
          movements_[{static_cast<int>(one.movement), one.segment}] = one.seconds;
        } else if (one.segment < 0) {
          of_stage_[stage][one.kind] += one.seconds;
        } else {
          divide(partition.segment(one.segment).units, table, one);
        }
      }
    }
    // A stage that comes early waits in these for the others, which the simulation does by itself.
    for (const Kind kind : {Kind::finish_gradients, Kind::norm}) {
      double least = std::numeric_limits<double>::infinity();
      for (auto& own : of_stage_) least = std::min(least, own[kind]);
      for (auto& own : of_stage_) own[kind] = least;
    }
  }

  double seconds(const schedule::Partition& partition, int64_t stage, const StepInstruction& one) const {
    if (one.kind == Kind::begin_movement) {
      const auto found = movements_.find({static_cast<int>(one.movement), one.segment});
      return found != movements_.end() ? found->second : mean_of(one.movement);
    }
    if (one.segment < 0 || one.kind == Kind::end_movement) {
      const auto& own = of_stage_[static_cast<size_t>(stage)];
      const auto found = own.find(one.kind);
      return one.kind == Kind::end_movement || found == own.end() ? 0 : found->second;
    }
    double sum = 0;
    const schedule::NumberRange& units = partition.segment(one.segment).units;
    for (int64_t unit = units.begin; unit < units.end; ++unit) sum += of_unit(unit, one.kind);
    return sum;
  }

  // All of a unit's computations for one micro-batch.
  double whole(int64_t unit) const {
    double sum = 0;
    for (const auto& [kind, seconds] : units_[static_cast<size_t>(unit)]) sum += seconds;
    return sum;
  }

 private:
  // A segment's time among its units, by their forward FLOPs.
  void divide(const schedule::NumberRange& units, const schedule::UnitTable& table, const MeasuredInstruction& one) {
    double flops = 0;
    for (int64_t unit = units.begin; unit < units.end; ++unit) flops += forward_flops(table, unit);
    for (int64_t unit = units.begin; unit < units.end; ++unit) {
      const double share = flops > 0 ? forward_flops(table, unit) / flops : 1.0 / static_cast<double>(units.size());
      units_[static_cast<size_t>(unit)][one.kind] += share * one.seconds;
    }
  }

  static double forward_flops(const schedule::UnitTable& table, int64_t unit) {
    return static_cast<double>(table[static_cast<size_t>(unit)].forward_flops);
  }

  double of_unit(int64_t unit, Kind kind) const {
    const auto& own = units_[static_cast<size_t>(unit)];
    const auto found = own.find(kind);
    return found != own.end() ? found->second : 0;
  }

  double mean_of(schedule::Movement movement) const {
    double sum = 0;
    int count = 0;
    for (const auto& [key, seconds] : movements_) {
      if (key.first != static_cast<int>(movement)) continue;
      sum += seconds;
      ++count;
    }
    return count > 0 ? sum / count : 0;
  }

  std::vector<std::map<Kind, double>> of_stage_;         // what belongs to no segment
  std::vector<std::map<Kind, double>> units_;            // by unit
  std::map<std::pair<int, int64_t>, double> movements_;  // by movement and segment
};

struct Simulated {
  std::vector<schedule::StepInstructions> lists;
  schedule::StepSimulation simulation;
};

Simulated simulated(const config::Config& config, const schedule::ResolvedLayout& layout, int64_t micro_batches,
                    const MeasuredTimes& times) {
  const auto pipeline = schedule::instructions(schedule::pipeline_of(config.layout, micro_batches));
  const schedule::Movements movements = layout.movements(config.layout);
  Simulated all;
  for (size_t stage = 0; stage < pipeline.size(); ++stage) {
    all.lists.push_back(schedule::training_step(pipeline[stage], micro_batches, layout.stages[stage], movements));
  }
  const auto seconds = [&](int64_t stage, const StepInstruction& one) {
    return times.seconds(layout.partition(), stage, one);
  };
  all.simulation = schedule::simulate_step(
      all.lists, {.seconds = seconds, .link = [](int64_t, const StepInstruction&) { return 0; }});
  return all;
}

// The layers of each virtual stage if the most expensive one is to be as cheap as possible by the measured times. Units
// before the first layer go with it, and those behind a layer with that one.
std::vector<int64_t> layers_by_time(const schedule::UnitTable& table, const MeasuredTimes& times,
                                    int64_t virtual_stages) {
  std::vector<double> costs;
  double before = 0;
  int64_t last = -1;
  for (size_t unit = 0; unit < table.size(); ++unit) {
    const double seconds = times.whole(static_cast<int64_t>(unit));
    const int64_t layer = table[unit].layer;
    if (layer >= 0 && layer != last) costs.push_back(std::exchange(before, 0.0));
    if (layer >= 0) last = layer;
    (costs.empty() ? before : costs.back()) += seconds;
  }
  if (std::ssize(costs) < virtual_stages) return {};
  return schedule::split_by_cost(costs, virtual_stages);
}

}  // namespace

StepAnalysis analysed(const config::Config& config, const schedule::UnitTable& table, int64_t ranks,
                      int64_t ranks_per_node, int64_t micro_batches, const MeasuredStages& measured) {
  const schedule::ResolvedLayout layout = schedule::resolved_layout(config, table, ranks, ranks_per_node);
  TERRACE_CHECK(std::ssize(measured) == layout.placement.stages, "times of {} stages of {}", measured.size(),
                layout.placement.stages);
  const MeasuredTimes times(layout, table, measured);
  const Simulated present = simulated(config, layout, micro_batches, times);
  StepAnalysis analysis{.path = critical_path(present.lists, present.simulation)};
  const int64_t virtual_stages = layout.placement.virtual_stages();
  if (layout.placement.stages == 1) return analysis;
  config::Config other = config;
  other.layout.stage_layers = layers_by_time(table, times, virtual_stages);
  if (other.layout.stage_layers.empty()) return analysis;
  try {
    const schedule::ResolvedLayout divided = schedule::resolved_layout(other, table, ranks, ranks_per_node);
    const double seconds = simulated(other, divided, micro_batches, times).simulation.seconds;
    const double gain = 1 - seconds / present.simulation.seconds;
    if (gain >= least_gain) {
      analysis.next.push_back(
          {.settings = fmt::format("--set 'layout.stage_layers=[{}]'", fmt::join(other.layout.stage_layers, ", ")),
           .step_seconds = seconds,
           .gain = gain});
    }
  } catch (const UserError&) {
    return analysis;  // the layout does not allow this division
  }
  return analysis;
}

std::string text_of(const NextRun& next) {
  return fmt::format("{} would save {:.0f}% of the step", next.settings, 100 * next.gain);
}

}  // namespace terrace::plan
