// Writes a step's record as JSON with one array for each event, and reads it back.
#include "terrace/observe/step_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"

namespace terrace::observe {
namespace {

Json figures_json(const std::vector<NamedFigure>& figures) {
  Json json = Json::object();
  for (const NamedFigure& one : figures) json[one.name] = one.value;
  return json;
}

std::vector<NamedFigure> figures_of(const Json& json) {
  std::vector<NamedFigure> figures;
  for (const auto& [name, value] : json.items()) figures.push_back({name, value.get<double>()});
  return figures;
}

// Steps have thousands of events, so each is an array: name, kind, lane, begin, end.
Json stage_json(const StageRecord& stage) {
  Json events = Json::array(), memory = Json::array();
  for (const StepEvent& one : stage.events) events.push_back({one.name, one.kind, one.lane, one.begin, one.end});
  for (const MemorySample& one : stage.memory) memory.push_back({one.seconds, one.bytes});
  return {{"stage", stage.stage},
          {"rank", stage.rank},
          {"seconds", figures_json(stage.seconds)},
          {"memory_bytes", figures_json(stage.memory_bytes)},
          {"events", events},
          {"memory", memory}};
}

StageRecord stage_of(const Json& json) {
  StageRecord stage{.stage = json.at("stage"),
                    .rank = json.at("rank"),
                    .seconds = figures_of(json.at("seconds")),
                    .memory_bytes = figures_of(json.at("memory_bytes"))};
  for (const Json& one : json.at("events")) {
    stage.events.push_back(
        {.name = one.at(0), .kind = one.at(1), .lane = one.at(2), .begin = one.at(3), .end = one.at(4)});
  }
  for (const Json& one : json.at("memory")) stage.memory.push_back({.seconds = one.at(0), .bytes = one.at(1)});
  return stage;
}

}  // namespace

StepRecord step_record_of(const Json& json) {
  StepRecord record{.source = json.at("source"),
                    .machine = json.at("machine"),
                    .software = json.at("software"),
                    .step = json.at("step"),
                    .step_seconds = json.at("step_seconds"),
                    .model_flops = json.at("model_flops"),
                    .peak_flops = json.at("peak_flops"),
                    .memory_bandwidth = json.at("memory_bandwidth"),
                    .links = json.at("links")};
  for (const Json& stage : json.at("stages")) record.stages.push_back(stage_of(stage));
  for (const Json& one : json.at("groups")) {
    record.groups.push_back({.name = one.at("name"),
                             .tier = one.at("tier"),
                             .stage = one.value("stage", int64_t{-1}),  // older records have none
                             .bytes = one.at("bytes"),
                             .moving_seconds = one.at("moving_seconds")});
    const Json& waiting = one.at("waiting_seconds");
    record.groups.back().waiting_seconds = waiting.is_null() ? std::nullopt : std::optional(waiting.get<double>());
  }
  for (const Json& one : json.at("operations")) {
    record.operations.push_back(
        {.name = one.at("name"), .seconds = one.at("seconds"), .flops = one.at("flops"), .bytes = one.at("bytes")});
  }
  return record;
}

Json json_of(const StepRecord& record) {
  Json stages = Json::array(), groups = Json::array(), operations = Json::array();
  for (const StageRecord& stage : record.stages) stages.push_back(stage_json(stage));
  for (const CommunicationRecord& one : record.groups) {
    groups.push_back({{"name", one.name},
                      {"tier", one.tier},
                      {"stage", one.stage},
                      {"bytes", one.bytes},
                      {"moving_seconds", one.moving_seconds},
                      {"waiting_seconds", one.waiting_seconds ? Json(*one.waiting_seconds) : Json()}});
  }
  for (const WorkRecord& one : record.operations) {
    operations.push_back({{"name", one.name}, {"seconds", one.seconds}, {"flops", one.flops}, {"bytes", one.bytes}});
  }
  return {{"source", record.source},
          {"machine", record.machine},
          {"software", record.software},
          {"step", record.step},
          {"step_seconds", record.step_seconds},
          {"model_flops", record.model_flops},
          {"peak_flops", record.peak_flops},
          {"memory_bandwidth", record.memory_bandwidth},
          {"links", record.links},
          {"stages", stages},
          {"groups", groups},
          {"operations", operations}};
}

StepRecord read_step_record(const std::filesystem::path& path) {
  try {
    return step_record_of(parse_json(read_text(path)));
  } catch (const Json::exception& error) {
    throw UserError::of("{} is not the record of a step: {}; train again, or remove the file", path.string(),
                        error.what());
  }
}

void write_step_record(const StepRecord& record, const std::filesystem::path& path) {
  write_text_atomically(path, json_of(record).dump() + "\n");
}

Trace trace_of(const StepRecord& record) {
  const auto nanoseconds = [](double seconds) { return static_cast<int64_t>(std::llround(seconds * 1e9)); };
  Trace trace;
  for (const StageRecord& stage : record.stages) {
    std::vector<Lane> lanes(1 + record.links.size());
    const std::string of_stage = fmt::format("stage {}: ", stage.stage);
    lanes.front() = {.name = of_stage + "computation", .rank = stage.rank};
    for (size_t link = 0; link < record.links.size(); ++link) {
      lanes[1 + link] = {.name = of_stage + "links of the " + record.links[link], .rank = stage.rank};
    }
    for (const StepEvent& one : stage.events) {
      if (one.kind == "wait") continue;
      lanes.at(static_cast<size_t>(one.lane))
          .spans.push_back({.name = one.name, .begin_ns = nanoseconds(one.begin), .end_ns = nanoseconds(one.end)});
    }
    for (Lane& lane : lanes) {
      if (!lane.spans.empty()) trace.push_back(std::move(lane));
    }
  }
  return trace;
}

double figure(const std::vector<NamedFigure>& figures, std::string_view name) {
  const auto found = std::ranges::find(figures, name, &NamedFigure::name);
  return found == figures.end() ? 0 : found->value;
}

void add(std::vector<NamedFigure>& figures, const std::string& name, double value) {
  const auto found = std::ranges::find(figures, name, &NamedFigure::name);
  if (found == figures.end()) {
    figures.push_back({name, value});
  } else {
    found->value += value;
  }
}

double sum(const std::vector<NamedFigure>& figures) {
  return std::accumulate(figures.begin(), figures.end(), 0.0,
                         [](double total, const NamedFigure& one) { return total + one.value; });
}

}  // namespace terrace::observe
