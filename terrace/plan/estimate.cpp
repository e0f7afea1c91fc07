// Computes estimates from a prediction, and predicts variations of the configuration.
#include "terrace/plan/estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "terrace/config/family.h"
#include "terrace/plan/memory/copied_states.h"
#include "terrace/plan/memory/stage_memory.h"
#include "terrace/plan/report/published_errors.h"
#include "terrace/plan/time/least_step.h"
#include "terrace/plan/time/tensor_reach.h"
#include "terrace/plan/time/variation.h"

namespace terrace::plan {
namespace {

constexpr double seconds_per_hour = 3600;

}  // namespace

TrainingEstimate training_estimate(const Prediction& prediction, const Target& target, double items_per_parameter) {
  TrainingEstimate estimate{.items_per_parameter = items_per_parameter};
  estimate.items = items_per_parameter * static_cast<double>(prediction.parameters);
  estimate.seconds = estimate.items / prediction.items_per_second();
  const double device_seconds = estimate.seconds * static_cast<double>(target.devices);
  estimate.device_hours = device_seconds / seconds_per_hour;
  estimate.energy_joules = device_seconds * target.machine.device.power_watts;
  estimate.flops = prediction.model_flops / static_cast<double>(prediction.items) * estimate.items;
  return estimate;
}

std::vector<TrainingEstimate> usual_trainings(const Prediction& prediction, const Target& target,
                                              const config::Config& config) {
  if (config.family->items != "tokens") return {};
  // The compute-optimal number of Hoffmann et al. (arXiv 2203.15556), and ten times as many, as models are trained that
  // serve long.
  return {training_estimate(prediction, target, 20), training_estimate(prediction, target, 200)};
}

double stored_token_bytes(const config::Config& config) {
  constexpr int64_t most_of_two_bytes = 65'536;
  const config::Key* vocabulary = config::find_key(config.family->settings.keys, "model.vocabulary");
  return vocabulary != nullptr && std::stoll(vocabulary->write(config)) > most_of_two_bytes ? 4 : 2;
}

CheckpointEstimate checkpoint_estimate(const Prediction& prediction, const Target& target) {
  const machine::Machine& machine = target.machine;
  CheckpointEstimate estimate{.bytes = checkpoint_bytes_per_parameter * static_cast<double>(prediction.parameters)};
  // Each rank saves its own errors of quantized gradients, and its own states where copies make steps by themselves.
  for (const StagePrediction& stage : prediction.stages) {
    const double ranks = static_cast<double>(target.devices) / static_cast<double>(prediction.stages.size());
    estimate.bytes += ranks * stage.memory.of(MemoryKind::feedback) + stage.local_copies_bytes;
  }
  const auto nodes = static_cast<double>(target.nodes());
  double bandwidth = nodes * machine.storage.node_bandwidth;
  if (machine.storage.total_bandwidth > 0) {
    bandwidth = bandwidth > 0 ? std::min(bandwidth, machine.storage.total_bandwidth) : machine.storage.total_bandwidth;
  }
  const auto ranks = static_cast<double>(target.devices);
  estimate.copy_seconds = estimate.bytes / ranks / std::min(copy_bandwidth, machine.device.memory_bandwidth / 2);
  if (bandwidth == 0) return estimate;
  constexpr double files_of_rank = 3;
  estimate.seconds =
      std::max(least_save_seconds, estimate.bytes / bandwidth) + seconds_per_file * files_of_rank * ranks;
  const double between_failures = machine.node_failure_hours * seconds_per_hour / nodes;
  estimate.interval_seconds = std::sqrt(2 * estimate.seconds * between_failures);
  return estimate;
}

std::vector<RooflinePoint> roofline(const Prediction& prediction, const Target& target, const config::Config& config) {
  const StagePrediction& stage = prediction.stages.at(static_cast<size_t>(prediction.slowest));
  const double peak = target.machine.device.rate(config.train.precision).peak;
  std::vector<RooflinePoint> points;
  for (size_t i = 0; i < num_time_kinds; ++i) {
    const auto kind = static_cast<TimeKind>(i);
    const double seconds = stage.computation.of(kind), flops = stage.computation.flops_of(kind);
    if (seconds == 0) continue;
    points.push_back({.kind = kind,
                      .seconds = seconds,
                      .share = seconds / prediction.step_seconds,
                      .flops_per_second = flops / seconds,
                      .peak_share = flops / seconds / peak});
  }
  return points;
}

ArithmeticIntensity arithmetic_intensity(const Prediction& prediction, const Target& target,
                                         const config::Config& config) {
  const PassTime& step = prediction.stages.at(static_cast<size_t>(prediction.slowest)).computation;
  const auto micro_batches = static_cast<double>(prediction.micro_batches);
  const machine::Device& device = target.machine.device;
  ArithmeticIntensity intensity{.flops = (step.product_flops + step.attention_flops) / micro_batches,
                                .bytes = step.memory_bytes / micro_batches,
                                .ridge = device.rate(config.train.precision).peak / device.memory_bandwidth};
  if (intensity.bytes > 0) intensity.flops_per_byte = intensity.flops / intensity.bytes;
  return intensity;
}

std::string text_of(const ArithmeticIntensity& intensity) {
  return fmt::format("{:.3g} FLOP a byte of memory, {:.3g} and {:.3g} of one micro-batch; the ridge is at {:.3g}",
                     intensity.flops_per_byte, intensity.flops, intensity.bytes, intensity.ridge);
}

std::string limit(const Prediction& prediction) {
  const StagePrediction& stage = prediction.stages.at(static_cast<size_t>(prediction.slowest));
  struct Cause {
    double seconds;
    std::string text;
  };
  std::vector<Cause> causes = {
      {stage.computation.of(TimeKind::products), "matrix products"},
      {stage.computation.of(TimeKind::attention), "attention"},
      {stage.computation.of(TimeKind::elements), "operations that memory bandwidth limits"},
      {stage.computation.of(TimeKind::launches), "launches of small kernels"},
      {prediction.bubble_share * prediction.step_seconds, "stages that wait for other stages (the bubble)"},
      {prediction.queued_share * prediction.step_seconds, "stages that wait for queued transfers"},
      {stage.update_seconds, "the optimizer's update"}};
  for (const ExposedTime& exposed : stage.exposed) {
    causes.push_back({exposed.seconds, fmt::format("communication of the group {}", exposed.group)});
  }
  const auto most = std::ranges::max_element(causes, {}, &Cause::seconds);
  return fmt::format("{:.0f}% of the step goes to {}", 100 * most->seconds / prediction.step_seconds, most->text);
}

std::vector<Change> best_changes(const config::Config& config, const Target& target, double step_seconds,
                                 size_t count) {
  constexpr double least_gain = 0.001;
  const double most = (1 - least_gain) * step_seconds;
  FastestOptions options{.count = count, .most_seconds = most, .most_seconds_over_nodes = most};
  // As best_layouts() has it: tensor groups leave the node for a gain that exceeds what such predictions err by.
  if (!tensor_leaves_domain(planned_run(config, target).mesh, target.machine)) {
    options.most_seconds_over_nodes /= 1 + uncertainty_of("tensor over nodes", known_errors(target.machine));
  }
  std::vector<Change> changes = fastest_of(variations(config), target, options);
  for (Change& change : changes) change.gain = 1 - change.prediction.step_seconds / step_seconds;
  return changes;
}

std::vector<Change> nearest_feasible(const config::Config& config, const Target& target, size_t count) {
  const FastestOptions nearest{.count = count, .fewest_settings_first = true};
  std::vector<Change> changes = fastest_of(variations(config), target, nearest);
  if (!changes.empty()) return changes;
  // Two changes one after the other, each pair of them once.
  std::vector<Variation> pairs;
  std::set<std::vector<std::string>> known;
  for (const Variation& first : variations(config)) {
    for (Variation& second : variations(first.config)) {
      second.settings = differences(config, second.config);
      if (known.insert(second.settings).second) pairs.push_back(std::move(second));
    }
  }
  return fastest_of(std::move(pairs), target, nearest);
}

}  // namespace terrace::plan
