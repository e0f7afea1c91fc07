// Writes a step's record as JSON with one array for each event, and reads it back.
#include "terrace/observe/step_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/text/json_record.h"

namespace terrace::observe {
namespace {

Json figures_json(const std::vector<NamedFigure>& figures) {
  Json json = Json::object();
  for (const NamedFigure& one : figures) json[one.name] = one.value;
  return json;
}

std::vector<NamedFigure> figures_in(const Json& json) {
  std::vector<NamedFigure> figures;
  for (const auto& [name, value] : json.items()) figures.push_back({name, value.get<double>()});
  return figures;
}

// Steps have thousands of events, so each is an array: name, kind, lane, begin, end.
Json events_json(const std::vector<StepEvent>& events) {
  Json json = Json::array();
  for (const StepEvent& one : events) json.push_back({one.name, one.kind, one.lane, one.begin, one.end});
  return json;
}

std::vector<StepEvent> events_in(const Json& json) {
  std::vector<StepEvent> events;
  for (const Json& one : json) {
    events.push_back({.name = one.at(0).get<std::string>(),
                      .kind = one.at(1).get<std::string>(),
                      .lane = one.at(2).get<int64_t>(),
                      .begin = one.at(3).get<double>(),
                      .end = one.at(4).get<double>()});
  }
  return events;
}

Json memory_json(const std::vector<MemorySample>& memory) {
  Json json = Json::array();
  for (const MemorySample& one : memory) json.push_back({one.seconds, one.bytes});
  return json;
}

std::vector<MemorySample> memory_in(const Json& json) {
  std::vector<MemorySample> memory;
  for (const Json& one : json) memory.push_back({.seconds = one.at(0).get<double>(), .bytes = one.at(1).get<double>()});
  return memory;
}

}  // namespace

void members_of(auto& json, MaybeConst<StageRecord> auto& one) {
  json("stage", one.stage)("rank", one.rank);
  json.as("seconds", one.seconds, figures_json, figures_in);
  json.as("memory_bytes", one.memory_bytes, figures_json, figures_in);
  json.as("events", one.events, events_json, events_in);
  json.as("memory", one.memory, memory_json, memory_in);
}

void members_of(auto& json, MaybeConst<CommunicationRecord> auto& one) {
  json("name", one.name)("tier", one.tier);
  if (json.has("stage", true)) json("stage", one.stage);  // older records have none
  json("bytes", one.bytes)("moving_seconds", one.moving_seconds)("waiting_seconds", one.waiting_seconds);
}

void members_of(auto& json, MaybeConst<WorkRecord> auto& one) {
  json("name", one.name)("seconds", one.seconds)("flops", one.flops)("bytes", one.bytes);
}

void members_of(auto& json, MaybeConst<StepRecord> auto& one) {
  json("source", one.source)("machine", one.machine)("software", one.software)("step", one.step);
  json("step_seconds", one.step_seconds)("model_flops", one.model_flops)("peak_flops", one.peak_flops);
  json("memory_bandwidth", one.memory_bandwidth)("links", one.links);
  json("stages", one.stages)("groups", one.groups)("operations", one.operations);
}

StepRecord step_record_of(const Json& json) { return record_of<StepRecord>(json); }

Json json_of(const StepRecord& record) { return json_of_record(record); }

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
