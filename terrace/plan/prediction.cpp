// Simulates the lists of all stages with the times of a machine.
#include "terrace/plan/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/units.h"
#include "terrace/config/family.h"
#include "terrace/models/cost/family.h"
#include "terrace/plan/step_costs.h"

namespace terrace::plan {
namespace {

using schedule::Movement;
using schedule::StepInstruction;
using Kind = StepInstruction::Kind;

// The names of docs/cost_model.md, by movement.
constexpr std::array<const char*, 6> groups = {"shard_weights", "shard_gradients", "shard_optimizer",
                                               "replicas",      "replicas",        "update"};

// Ranks of a node, if the machine has nodes.
int64_t ranks_per_node(const Target& target) { return std::min(target.devices, target.machine.devices_of("node")); }

double recomputed_flops(const PlannedRun& run) {
  double sum = 0;
  for (const schedule::UnitRow& row : run.table()) {
    if (row.layer < 0 || run.config.train.recompute == config::Recompute::none) continue;
    if (run.config.train.recompute == config::Recompute::full) {
      sum += row.counted_flops / 3;
      continue;
    }
    for (const schedule::Operation& one : row.operations.forward) {
      if (one.kind != schedule::Operation::Kind::attention) continue;
      // Counted in full, as in counted_flops.
      sum += one.flops() * static_cast<double>(run.config.layout.tensor) * (one.causal ? 2 : 1);
    }
  }
  return sum;
}

std::string memory_reason(const Prediction& prediction, const Target& target) {
  const StagePrediction& fullest = prediction.fullest();
  const StageMemory& memory = fullest.memory;
  const machine::Device& device = target.machine.device;
  const double left = device.memory_bytes - device.reserved_bytes;
  if (memory.total() <= left) return "";
  size_t largest = 0;
  for (size_t kind = 0; kind < num_memory_kinds; ++kind) {
    if (memory.bytes[kind] > memory.bytes[largest]) largest = kind;
  }
  return fmt::format("stage {} needs {} of {}: {} {}", &fullest - prediction.stages.data(),
                     format_bytes(memory.total()), format_bytes(left), name_of(static_cast<MemoryKind>(largest)),
                     format_bytes(memory.bytes[largest]));
}

void add_exposed(std::vector<ExposedTime>& list, const char* group, double waited, double moving) {
  auto found = std::ranges::find(list, group, &ExposedTime::group);
  if (found == list.end()) found = list.insert(list.end(), ExposedTime{.group = group});
  found->seconds += waited;
  found->moving_seconds += moving;
}

void read_times(StagePrediction& stage, const schedule::StepInstructions& list, const schedule::StageTimes& times) {
  for (size_t i = 0; i < list.size(); ++i) {
    const double seconds = times.intervals[i].end - times.intervals[i].start;
    const char* group = groups[static_cast<size_t>(list[i].movement)];
    if (list[i].kind == Kind::begin_movement) add_exposed(stage.exposed, group, 0, seconds);
    if (list[i].kind == Kind::end_movement) add_exposed(stage.exposed, group, seconds, 0);
  }
  std::erase_if(stage.exposed, [](const ExposedTime& one) { return one.moving_seconds == 0; });
  const double sums = stage.computation.of(TimeKind::tensor_sums);
  if (sums > 0) stage.exposed.push_back({.group = "tensor", .seconds = sums, .moving_seconds = sums});
  stage.waiting_seconds = times.stage_seconds;
}

}  // namespace

const StagePrediction& Prediction::fullest() const {
  return *std::ranges::max_element(stages, {}, [](const StagePrediction& stage) { return stage.memory.total(); });
}

void check_devices(const Target& target) {
  if (target.devices <= target.machine.devices()) return;
  throw UserError::of("--devices {} is more than the {} devices of {}; use at most {}", target.devices,
                      target.machine.devices(), target.machine.name, target.machine.devices());
}

DetailedPrediction predict_in_detail(const config::Config& config, const Target& target) {
  check_devices(target);
  const PlannedRun run(divided(config, target.software), target.devices, ranks_per_node(target));
  const StepCosts costs(run, target.machine, target.software);
  DetailedPrediction detailed;
  Prediction& prediction = detailed.prediction;
  const auto& family = static_cast<const models::PlannedFamily&>(*config.family);

  const auto micro_batches = static_cast<double>(run.pipeline.micro_batches * run.mesh.size("data"));
  prediction.parameters = schedule::elements(run.table());
  prediction.model_flops = micro_batches * schedule::counted_flops(run.table());
  prediction.hardware_flops = prediction.model_flops + micro_batches * recomputed_flops(run);
  prediction.samples = config.train.global_batch;
  prediction.items = config.train.global_batch * (family.items_of_sample ? family.items_of_sample(config) : 1);
  prediction.peak_flops = static_cast<double>(target.devices) * target.machine.device.rate(config.train.precision).peak;

  const std::vector<schedule::Instructions> pipeline = schedule::instructions(run.pipeline);
  for (int64_t stage = 0; stage < run.placement.stages; ++stage) {
    detailed.lists.push_back(planned_list(run, pipeline[static_cast<size_t>(stage)], stage, target.software));
  }
  detailed.simulation = schedule::simulate_times(
      detailed.lists, {.seconds = [&](int64_t stage, const StepInstruction& one) { return costs.seconds(stage, one); },
                       .link = [&](int64_t stage, const StepInstruction& one) { return costs.link(stage, one); },
                       .num_links = costs.num_links()});

  detailed.num_links = static_cast<size_t>(costs.num_links());
  for (int64_t stage = 0; stage < run.placement.stages; ++stage) {
    std::vector<size_t>& links = detailed.links.emplace_back();
    for (const StepInstruction& one : detailed.lists[static_cast<size_t>(stage)]) {
      links.push_back(is_transfer(one.kind) ? static_cast<size_t>(costs.link(stage, one)) : 0);
    }
  }

  double waiting = 0;
  for (int64_t number = 0; number < run.placement.stages; ++number) {
    const auto index = static_cast<size_t>(number);
    StagePrediction stage{.memory = stage_memory(run, number, target.software),
                          .parameters = run.stage_elements(number),
                          .computation = costs.computation(number),
                          .update_seconds = costs.update_seconds(number)};
    read_times(stage, detailed.lists[index], detailed.simulation.stages[index]);
    waiting += stage.waiting_seconds;
    prediction.stages.push_back(std::move(stage));
    const auto computes = [&](int64_t s) { return prediction.stages[static_cast<size_t>(s)].computation.total(); };
    if (computes(number) > computes(prediction.slowest)) prediction.slowest = number;
  }
  prediction.step_seconds = detailed.simulation.seconds;
  prediction.bubble_share = waiting / (static_cast<double>(run.placement.stages) * prediction.step_seconds);
  prediction.reason = memory_reason(prediction, target);
  return detailed;
}

Prediction predict(const config::Config& config, const Target& target) {
  return predict_in_detail(config, target).prediction;
}

}  // namespace terrace::plan
