// Simulates the lists of all stages with the times of a machine.
#include "terrace/plan/prediction.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/text/units.h"
#include "terrace/config/family.h"
#include "terrace/config/names.h"
#include "terrace/plan/memory/communicators.h"
#include "terrace/plan/memory/copied_states.h"
#include "terrace/plan/memory/fewest_recomputed.h"
#include "terrace/plan/memory/rank_overhead.h"
#include "terrace/plan/time/outer_update.h"
#include "terrace/plan/time/route.h"
#include "terrace/schedule/description.h"
#include "terrace/schedule/rank_share.h"

namespace terrace::plan {
namespace {

using schedule::StepInstruction;
using Kind = StepInstruction::Kind;

double recomputed_flops(const PlannedRun& run, const schedule::UnitRow& row, config::Recompute recompute) {
  if (recompute == config::Recompute::none) return 0;
  if (recompute == config::Recompute::full) return row.counted_flops / 3;
  double sum = 0;
  for (const schedule::Operation& one : row.operations.forward) {
    if (one.kind != schedule::Operation::Kind::attention) continue;
    // Counted in full, as in counted_flops.
    sum += one.flops() * static_cast<double>(run.config.layout.tensor) * (one.causal ? 2 : 1);
  }
  return sum;
}

double recomputed_flops(const PlannedRun& run) {
  double sum = 0;
  for (int64_t number = 0; number <= run.partition().last(); ++number) {
    const auto& [begin, end] = run.partition().segment(number).units;
    for (int64_t unit = begin; unit < end; ++unit) {
      sum += recomputed_flops(run, run.table()[static_cast<size_t>(unit)], run.recompute_of(number));
    }
  }
  return sum;
}

std::string memory_reason(const Prediction& prediction, const Target& target) {
  const StagePrediction& fullest = prediction.fullest();
  const StageMemory& memory = fullest.memory;
  const machine::Device& device = target.machine.device;
  const double left = device.memory_bytes - device.reserved_bytes;
  if (fullest.needed_bytes() <= left) return "";
  size_t largest = 0;
  for (size_t kind = 0; kind < num_memory_kinds; ++kind) {
    if (memory.bytes[kind] > memory.bytes[largest]) largest = kind;
  }
  const std::string communicators = fullest.communicator_bytes > 0
                                        ? fmt::format(", and {} communicators {}", fullest.communicators.all(),
                                                      format_bytes(fullest.communicator_bytes))
                                        : "";
  return fmt::format("stage {} needs {} of {}: {} {}{}", &fullest - prediction.stages.data(),
                     format_bytes(fullest.needed_bytes()), format_bytes(left),
                     name_of(static_cast<MemoryKind>(largest)), format_bytes(memory.bytes[largest]), communicators);
}

void add_exposed(std::vector<ExposedTime>& list, const char* group, double waited, double moving, double sent = 0) {
  auto found = std::ranges::find(list, group, &ExposedTime::group);
  if (found == list.end()) found = list.insert(list.end(), ExposedTime{.group = group});
  found->seconds += waited;
  found->moving_seconds += moving;
  found->sent_bytes += sent;
}

void read_segments(StagePrediction& stage, const PlannedRun& run, int64_t number) {
  const auto ranks = static_cast<double>(run.config.layout.tensor);
  for (const std::vector<int64_t>& chunk : run.stages[static_cast<size_t>(number)].chunks) {
    for (const int64_t index : chunk) {
      const schedule::Segment& segment = run.partition().segment(index);
      int64_t& largest = segment.layer < 0 ? stage.other_weights_bytes : stage.layer_weights_bytes;
      largest = std::max(largest, run.weight_bytes(index));
      for (const schedule::UnitParameter& parameter : schedule::segment_parameters(run.table(), segment)) {
        const ParamMark& mark = parameter.mark;
        if (mark.kind != ParamMark::Kind::replicated || ranks == 1 || (mark.of_experts && run.expert_sizes)) continue;
        if (!run.config.layout.sequence_parallel && !mark.gradient_in_shares) continue;
        const double bytes =
            static_cast<double>(schedule::elements(mark) * config::element_bytes(run.config.train.gradient_type)) /
            static_cast<double>(run.sizes.optimizer);
        stage.shares_bytes += 2 * bytes * (ranks - 1) / ranks;
      }
    }
  }
}

// Adds the mean share of a step in the outer updates of copies that make steps by themselves.
double add_outer_updates(Prediction& prediction, const SimulatedStep& step) {
  const Target& target = step.target;
  if (!step.run.sizes.has_local_copies()) return 0;
  const machine::Machine machine = machine::for_job(target.machine, target.software, target.devices);
  const auto every = static_cast<double>(step.run.config.layout.outer_every);
  double most = 0;
  for (size_t number = 0; number < prediction.stages.size(); ++number) {
    const OuterUpdate update = outer_update(step.run, static_cast<int64_t>(number), machine);
    most = std::max(most, update.seconds / every);
    prediction.stages[number].exposed.push_back({.group = schedule::group_of(schedule::Movement::reduce_replicas),
                                                 .seconds = update.seconds / every,
                                                 .moving_seconds = update.moving_seconds / every,
                                                 .sent_bytes = update.bytes / every});
  }
  return most;
}

void add_node_memory(Prediction& prediction, const SimulatedStep& step) {
  const machine::Machine& machine = step.target.machine;
  std::vector<RankBytes> by_stage;
  for (const StagePrediction& stage : prediction.stages) {
    by_stage.push_back({.saved = stage.saved_bytes, .device = stage.needed_bytes() + machine.device.reserved_bytes});
  }
  prediction.node = node_memory(step.run, by_stage, machine.host);
  prediction.rank_overhead_bytes = rank_overhead_bytes(step.run);
  prediction.reason = memory_reason(prediction, step.target);
  if (prediction.reason.empty()) prediction.reason = node_memory_reason(prediction.node, step.run, step.target);
}

void read_times(StagePrediction& stage, const SimulatedStep& step, int64_t number) {
  const auto index = static_cast<size_t>(number);
  const schedule::StepInstructions& list = step.lists[index];
  const schedule::StageTimes& times = step.simulation.stages[index];
  for (size_t i = 0; i < list.size(); ++i) {
    const double seconds = times.intervals[i].end - times.intervals[i].start;
    const char* group = schedule::group_of(list[i].movement, list[i].hop);
    if (list[i].kind == Kind::begin_movement) {
      add_exposed(stage.exposed, group, 0, seconds, step.costs.bytes(number, list[i]));
    }
    if (list[i].kind == Kind::end_movement) {
      add_exposed(stage.exposed, group, seconds, step.costs.seconds(number, list[i]));
    }
  }
  std::erase_if(stage.exposed, [](const ExposedTime& one) { return one.moving_seconds == 0; });
  const PassTime& computation = stage.computation;
  if (computation.tensor_seconds > 0) {
    stage.exposed.push_back({.group = "tensor",
                             .seconds = computation.of(TimeKind::tensor_sums),
                             .moving_seconds = computation.tensor_seconds,
                             .sent_bytes = step.costs.tensor_bytes(number)});
  }
  if (computation.expert_seconds > 0) {
    stage.exposed.push_back({.group = "experts",
                             .seconds = computation.of(TimeKind::experts),
                             .moving_seconds = computation.expert_seconds,
                             .sent_bytes = step.costs.expert_bytes(number)});
  }
  if (computation.context_seconds > 0) {
    stage.exposed.push_back({.group = "context",
                             .seconds = computation.of(TimeKind::context),
                             .moving_seconds = computation.context_seconds,
                             .sent_bytes = step.costs.context_bytes(number)});
  }
  stage.bubble_seconds = times.bubble_seconds;
  stage.queued_seconds = times.queued_seconds();
  stage.slowed_seconds = times.slowed_seconds;
}

}  // namespace

const StagePrediction& Prediction::fullest() const {
  return *std::ranges::max_element(stages, {}, &StagePrediction::needed_bytes);
}

std::string products_line(const Target& target) {
  if (target.block_products == BlockProducts::as_run) return "";
  return "products of blocks in fp8; attention, head, embedding, weights, gradients and calls as in a run in bf16; MFU "
         "and HFU are shares of the peak in bf16\n";
}

namespace {

void check_fp8(const config::Config& config, const machine::Machine& machine) {
  std::vector<std::string> problems;
  if (config.train.precision != config::Precision::bf16) {
    problems.push_back(fmt::format(
        "it is for transformers in bf16, and train.precision is {}; set it to bf16, or leave the option out",
        config::name_of(config.train.precision)));
  }
  const std::string missing = machine::missing_fp8(machine);
  if (!missing.empty()) problems.push_back(machine.source() + " " + missing);
  if (!problems.empty()) throw UserError::of("--products fp8: {}", fmt::join(problems, "\n--products fp8: "));
}

}  // namespace

void check_target(const config::Config& config, const Target& target) {
  const std::string missing = machine::missing_rate(target.machine, config.train.precision);
  if (!missing.empty()) throw UserError::of("{} {}", target.machine.source(), missing);
  if (target.block_products == BlockProducts::fp8) check_fp8(config, target.machine);
  const bool stages = target.software.host_staging != machine::HostStaging::none && target.nodes() > 1;
  if (stages && target.machine.host.staging_bandwidth == 0) {
    throw UserError::of(
        "{} has data pass through the host's memory (host_staging), but {} has no host.staging_bandwidth; add it, or "
        "name other software",
        target.software.name, target.machine.source());
  }
  if (target.devices <= target.machine.devices()) return;
  throw UserError::of("--devices {} is more than the {} devices of {}; use at most {}", target.devices,
                      target.machine.devices(), target.machine.name, target.machine.devices());
}

PlannedRun on_target(PlannedRun run, const Target& target) {
  const machine::Machine machine = machine::for_job(target.machine, target.software, target.devices);
  if (run.config.layout.context > 1) {
    run.take_context_route(chosen_context_route(run, target.machine, target.software));
  }
  run.take_route(target.software.two_hop_routes ? chosen_route(run, machine) : config::Routing::flat);
  run.config.layout.rails_gather = chosen_rails_gather(run, machine);
  if (run.config.layout.recompute_layers.word != config::RecomputeLayers::Word::fit) return run;
  const double memory = target.machine.device.memory_bytes - target.machine.device.reserved_bytes;
  run.take_recompute_layers(fewest_recomputed(
      run, [&](const PlannedRun& tried, int64_t stage) { return stage_bytes(tried, stage, target) <= memory; }));
  return run;
}

namespace {

// The mesh would advise numbers of ranks that the machine may not have.
void check_model_fits_devices(const config::LayoutConfig& layout, const Target& target) {
  const int64_t model = layout.ranks_of_samples(), most = target.machine.devices() / model * model;
  if (target.devices % model == 0) return;
  const int64_t below = target.devices / model * model, above = std::min(below + model, most);
  const std::string cut = fmt::format("{} cut the model over {} devices", schedule::cuts_of_samples(layout), model);
  if (most == 0) {
    throw UserError::of("{}, but {} has {}; lower one of them, or name a larger machine", cut, target.machine.name,
                        target.machine.devices());
  }
  throw UserError::of("{}, which do not divide --devices {}; use --devices {}{}", cut, target.devices,
                      below > 0 && below < above ? fmt::format("{} or ", below) : "", above);
}

}  // namespace

PlannedRun planned_run(const config::Config& config, const Target& target) {
  check_target(config, target);
  check_model_fits_devices(config.layout, target);
  schedule::check_one_micro_batch(config, target.devices / config.layout.ranks_of_samples());
  return on_target({divided(config, target.software), target.devices, target.ranks_per_node()}, target);
}

Prediction predict(const SimulatedStep& step) {
  const PlannedRun& run = step.run;
  const config::Config& config = run.config;
  const auto micro_batches = static_cast<double>(run.pipeline.micro_batches * run.mesh.size("data"));
  const machine::Device& device = step.target.machine.device;
  Prediction prediction;
  prediction.parameters = schedule::elements(run.table());
  prediction.active_parameters = schedule::active_elements(run.table());
  prediction.model_flops = micro_batches * schedule::counted_flops(run.table());
  prediction.hardware_flops = prediction.model_flops + micro_batches * recomputed_flops(run);
  prediction.micro_batches = run.pipeline.micro_batches;
  prediction.samples = config.train.global_batch;
  prediction.items = schedule::average_items(config, config.train.global_batch);
  prediction.peak_flops = static_cast<double>(step.target.devices) * device.rate(config.train.precision).peak;

  double bubble = 0, queued = 0;
  for (int64_t number = 0; number < run.placement.stages; ++number) {
    StagePrediction stage{.memory = stage_memory(run, number, step.target.software),
                          .parameters = run.stage_elements(number),
                          .recomputed_layers = run.recomputed_layers(number),
                          .recomputable_layers = run.recomputable_layers(number),
                          .computation = step.costs.computation(number),
                          .update_seconds = step.costs.update_seconds(number)};
    stage.communicators = communicators_of(run, number);
    stage.communicator_bytes = communicator_bytes(stage.communicators, step.target.machine.communicators);
    stage.saved_bytes = saved_bytes(run, number, stage.memory);
    stage.local_copies_bytes = local_copies_bytes(run, number);
    read_segments(stage, run, number);
    read_times(stage, step, number);
    bubble += stage.bubble_seconds;
    queued += stage.queued_seconds;
    prediction.stages.push_back(std::move(stage));
    const auto computes = [&](int64_t s) { return prediction.stages[static_cast<size_t>(s)].computation.total(); };
    if (computes(number) > computes(prediction.slowest)) prediction.slowest = number;
  }
  const double all_stages = static_cast<double>(run.placement.stages) * step.simulation.seconds;
  prediction.bubble_share = bubble / all_stages;
  prediction.queued_share = queued / all_stages;
  prediction.step_seconds = step.simulation.seconds + add_outer_updates(prediction, step);
  add_node_memory(prediction, step);
  return prediction;
}

Prediction predict(const PlannedRun& run, const Target& target) { return predict(SimulatedStep(run, target)); }

Prediction predict(const config::Config& config, const Target& target) {
  return predict(planned_run(config, target), target);
}

}  // namespace terrace::plan
