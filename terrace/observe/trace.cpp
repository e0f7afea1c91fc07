// Writes trace events as JSON, one on each line.
#include "terrace/observe/trace.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>

#include "terrace/base/files/file.h"
#include "terrace/base/text/json.h"

namespace terrace::observe {
namespace {

// The position at which viewers show a lane.
struct TrackPosition {
  int64_t group;
  size_t track;
};

Json event_of(const Span& span, const TrackPosition& position, int64_t origin_ns) {
  const double seconds = 1e-9 * static_cast<double>(span.end_ns - span.begin_ns);
  Json arguments = Json::object();
  if (!span.detail.empty()) arguments["detail"] = span.detail;
  if (span.flops > 0) arguments["flops"] = span.flops;
  if (span.bytes > 0) arguments["bytes"] = span.bytes;
  if (span.flops > 0 && seconds > 0) arguments["flops_per_second"] = span.flops / seconds;
  if (span.bytes > 0 && seconds > 0) arguments["bytes_per_second"] = span.bytes / seconds;
  return {{"name", span.name},
          {"cat", span.kind == SpanKind::phase ? "phase" : "operation"},
          {"ph", "X"},
          {"ts", 1e-3 * static_cast<double>(span.begin_ns - origin_ns)},
          {"dur", 1e-3 * static_cast<double>(span.end_ns - span.begin_ns)},
          {"pid", position.group},
          {"tid", position.track},
          {"args", arguments}};
}

Json name_event(const char* what, const TrackPosition& position, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", position.group}, {"tid", position.track}, {"args", {{"name", name}}}};
}

// The names of the ranks in their order, followed by that of lanes without a single rank.
std::map<int64_t, std::string> groups_of(const Trace& trace) {
  std::map<int64_t, std::string> names;
  int64_t last = 0;
  for (const Lane& lane : trace) last = std::max(last, lane.rank);
  for (const Lane& lane : trace) {
    names[lane.rank < 0 ? last + 1 : lane.rank] = last == 0       ? "terrace"
                                                  : lane.rank < 0 ? "beside the ranks"
                                                                  : "rank " + std::to_string(lane.rank);
  }
  return names;
}

}  // namespace

bool encloses_or_precedes(const Span& a, const Span& b) {
  return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
}

void write_chrome_trace(const Trace& trace, const std::filesystem::path& path) {
  int64_t origin_ns = std::numeric_limits<int64_t>::max();
  for (const Lane& lane : trace) {
    for (const Span& span : lane.spans) origin_ns = std::min(origin_ns, span.begin_ns);
  }
  AtomicFile file(path);
  file.write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  const std::map<int64_t, std::string> groups = groups_of(trace);
  const char* separator = "";
  for (const auto& [group, name] : groups) {
    file.write(separator + name_event("process_name", {group, 0}, name).dump());
    separator = ",\n";
  }
  for (size_t lane = 0; lane < trace.size(); ++lane) {
    const TrackPosition position{trace[lane].rank < 0 ? groups.rbegin()->first : trace[lane].rank, lane};
    file.write(separator + name_event("thread_name", position, trace[lane].name).dump());
    std::vector<Span> spans = trace[lane].spans;
    std::ranges::stable_sort(spans, encloses_or_precedes);
    for (const Span& span : spans) file.write(",\n" + event_of(span, position, origin_ns).dump());
  }
  file.write("\n]}\n");
  file.commit();
}

}  // namespace terrace::observe
