// Writes the intervals of a simulation as events, and sums them by what they went to.
#include "terrace/plan/report/step_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "terrace/plan/memory/memory_over_time.h"

namespace terrace::plan {
namespace {

using schedule::StepInstruction;
using Kind = StepInstruction::Kind;

std::string link_name(const machine::Machine& machine, size_t tier) {
  return machine.tiers.empty() ? "link" : machine.tiers[tier].name;
}

bool is_earlier(const observe::StepEvent& a, const observe::StepEvent& b) {
  return std::pair(a.lane, a.begin) < std::pair(b.lane, b.begin);
}

std::vector<observe::StepEvent> events_of(const SimulatedStep& step, int64_t stage) {
  const schedule::StepInstructions& list = step.lists.at(static_cast<size_t>(stage));
  const std::vector<schedule::TimeInterval>& intervals =
      step.simulation.stages.at(static_cast<size_t>(stage)).intervals;
  std::vector<observe::StepEvent> events;
  for (size_t i = 0; i < list.size(); ++i) {
    const auto& [start, end] = intervals[i];
    if (start == end) continue;
    const int64_t lane = is_transfer(list[i].kind) ? 1 + step.costs.link(stage, list[i]) : 0;
    events.push_back(
        {.name = to_string(list[i]), .kind = drawn_as(list[i].kind), .lane = lane, .begin = start, .end = end});
  }
  std::ranges::stable_sort(events, is_earlier);
  return events;
}

// Calls that share a tier's links overlap. Moves each event that begins before the one before it on its lane has ended
// to a further lane of the tier, which the record gets behind those of the tiers.
void separate_lanes(observe::StepRecord& record) {
  const auto num_tiers = static_cast<int64_t>(record.links.size());
  std::map<std::pair<int64_t, int64_t>, int64_t> further;  // by the tier's lane and the place among its lanes
  for (observe::StageRecord& stage : record.stages) {
    std::map<int64_t, std::vector<double>> ends;  // by the tier's lane: of each of its lanes
    for (observe::StepEvent& event : stage.events) {
      if (event.lane == 0) continue;
      std::vector<double>& lanes = ends[event.lane];
      const auto place = std::ranges::find_if(lanes, [&](double end) { return end <= event.begin; }) - lanes.begin();
      if (place == std::ssize(lanes)) lanes.push_back(0);
      lanes[static_cast<size_t>(place)] = event.end;
      if (place == 0) continue;
      const auto [found, is_new] = further.emplace(std::pair(event.lane, place), num_tiers + 1 + std::ssize(further));
      if (is_new) {
        record.links.push_back(fmt::format("{} ({})", record.links[static_cast<size_t>(event.lane - 1)], place + 1));
      }
      event.lane = found->second;
    }
    std::ranges::stable_sort(stage.events, is_earlier);
  }
}

// The seconds of the step by what they went to, under the names that measured steps have.
std::vector<observe::NamedFigure> seconds_of(const SimulatedStep& step, int64_t stage,
                                             const StagePrediction& prediction) {
  std::vector<observe::NamedFigure> seconds;
  const schedule::StepInstructions& list = step.lists.at(static_cast<size_t>(stage));
  const schedule::StageTimes& times = step.simulation.stages.at(static_cast<size_t>(stage));
  for (size_t i = 0; i < list.size(); ++i) {
    const double duration = times.intervals[i].end - times.intervals[i].start;
    if (duration == 0 || is_transfer(list[i].kind)) continue;
    if (list[i].kind == Kind::end_movement) {
      observe::add(seconds, std::string("waits for ") + schedule::group_of(list[i].movement, list[i].hop), duration);
    } else if (!schedule::is_receive(list[i].kind)) {
      observe::add(seconds, drawn_as(list[i].kind), duration);
    }
  }
  if (prediction.bubble_seconds > 0) observe::add(seconds, observe::bubble_waits, prediction.bubble_seconds);
  if (prediction.queued_seconds > 0) observe::add(seconds, observe::queued_waits, prediction.queued_seconds);
  return seconds;
}

// The group that sends activations and gradients, by the name that training gives it.
constexpr const char* sends_group = "stages";

// Adds a stage's sends to its groups.
void add_sends(const SimulatedStep& step, int64_t stage, std::vector<observe::CommunicationRecord>& groups) {
  observe::CommunicationRecord sends{.name = sends_group};
  int64_t outermost = 0;
  for (const StepInstruction& one : step.lists[static_cast<size_t>(stage)]) {
    if (!schedule::is_send(one.kind)) continue;
    sends.bytes += step.costs.bytes(stage, one);
    sends.moving_seconds += step.costs.send_seconds(stage, one);
    outermost = std::max(outermost, step.costs.link(stage, one));
  }
  if (sends.bytes == 0) return;
  sends.tier = link_name(step.target.machine, static_cast<size_t>(outermost));
  // The receiver waits for the sender's computation and for the send together.
  sends.waiting_seconds =
      step.target.software.sends_while_computing ? std::nullopt : std::optional(sends.moving_seconds);
  groups.push_back(std::move(sends));
}

std::vector<observe::CommunicationRecord> groups_of_stage(const SimulatedStep& step, const StagePrediction& prediction,
                                                          int64_t stage) {
  const machine::Machine& machine = step.target.machine;
  std::vector<observe::CommunicationRecord> groups;
  for (const ExposedTime& exposed : prediction.exposed) {
    groups.push_back(
        {.name = exposed.group, .moving_seconds = exposed.moving_seconds, .waiting_seconds = exposed.seconds});
    const bool tensor = exposed.group == "tensor", context = exposed.group == "context";
    if (!tensor && !context && exposed.group != "experts") continue;
    const PredictedCosts& costs = step.costs;
    groups.back().bytes = tensor    ? costs.tensor_bytes(stage)
                          : context ? costs.context_bytes(stage)
                                    : costs.expert_bytes(stage);
    groups.back().tier = link_name(machine, static_cast<size_t>(tensor    ? costs.tensor_tier()
                                                                : context ? costs.context_tier()
                                                                          : costs.expert_tier()));
  }
  for (const StepInstruction& one : step.lists[static_cast<size_t>(stage)]) {
    if (one.kind != Kind::begin_movement) continue;
    const auto group =
        std::ranges::find(groups, schedule::group_of(one.movement, one.hop), &observe::CommunicationRecord::name);
    if (group == groups.end()) continue;
    group->bytes += step.costs.bytes(stage, one);
    group->tier = link_name(machine, static_cast<size_t>(step.costs.link(stage, one)));
  }
  add_sends(step, stage, groups);
  for (observe::CommunicationRecord& one : groups) one.stage = stage;
  return groups;
}

std::vector<observe::CommunicationRecord> groups_of(const SimulatedStep& step, const Prediction& prediction) {
  std::vector<observe::CommunicationRecord> groups;
  for (int64_t stage = 0; stage < step.run.placement.stages; ++stage) {
    for (observe::CommunicationRecord& one :
         groups_of_stage(step, prediction.stages[static_cast<size_t>(stage)], stage)) {
      const auto known = std::ranges::find(groups, one.name, &observe::CommunicationRecord::name);
      if (known == groups.end()) {
        groups.push_back(std::move(one));
      } else if (one.moving_seconds > known->moving_seconds) {
        *known = std::move(one);
      }
    }
  }
  return groups;
}

}  // namespace

observe::StepRecord step_record(const SimulatedStep& step, const Prediction& prediction,
                                const std::vector<int64_t>& stages) {
  const machine::Machine& machine = step.target.machine;
  const config::Precision precision = step.run.config.train.precision;
  observe::StepRecord record{.source = "predicted",
                             .machine = machine.name,
                             .software = step.target.software.name,
                             .step_seconds = prediction.step_seconds,
                             .model_flops = prediction.model_flops,
                             .peak_flops = machine.device.rate(precision).peak,
                             .memory_bandwidth = machine.device.memory_bandwidth};
  for (size_t tier = 0; tier < static_cast<size_t>(step.costs.num_links()); ++tier) {
    record.links.push_back(link_name(machine, tier));
  }
  const mesh::Mesh& mesh = step.run.mesh;
  for (int64_t number = 0; number < step.run.placement.stages; ++number) {
    const StagePrediction& predicted = prediction.stages[static_cast<size_t>(number)];
    observe::StageRecord stage{.stage = number,
                               .rank = mesh.group(0, "pipeline").ranks[static_cast<size_t>(number)],
                               .seconds = seconds_of(step, number, predicted)};
    for (size_t number_of_kind = 0; number_of_kind < num_memory_kinds; ++number_of_kind) {
      const auto kind = static_cast<MemoryKind>(number_of_kind);
      if (kind == MemoryKind::feedback && !step.run.config.layout.error_feedback) continue;
      stage.memory_bytes.push_back({std::string(name_of(kind)), predicted.memory.of(kind)});
    }
    if (std::ranges::find(stages, number) != stages.end()) {
      stage.events = events_of(step, number);
      stage.memory = memory_over_time(step, number);
    }
    record.stages.push_back(std::move(stage));
  }
  separate_lanes(record);
  record.groups = groups_of(step, prediction);
  const PassTime& computation = prediction.stages[static_cast<size_t>(prediction.slowest)].computation;
  for (const TimeKind kind : {TimeKind::products, TimeKind::attention, TimeKind::elements}) {
    if (computation.of(kind) == 0) continue;
    record.operations.push_back({.name = std::string(name_of(kind)),
                                 .seconds = computation.of(kind),
                                 .flops = computation.flops_of(kind),
                                 .bytes = computation.bytes_of(kind)});
  }
  return record;
}

observe::StepRecord step_record(const config::Config& config, const Target& target) {
  constexpr int64_t most_stages = 16;
  const PlannedRun run = planned_run(config, target);
  const SimulatedStep step(run, target);
  // The first and the last stage, and others at equal distances between them.
  const int64_t all = run.placement.stages, shown = std::min(all, most_stages);
  std::vector<int64_t> stages;
  for (int64_t i = 0; i < shown; ++i) stages.push_back(shown == 1 ? 0 : i * (all - 1) / (shown - 1));
  return step_record(step, predict(step), stages);
}

}  // namespace terrace::plan
