// Makes one span of each instruction that takes time.
#include "terrace/plan/step_trace.h"

#include <cmath>

#include "terrace/plan/step_costs.h"

namespace terrace::plan {
namespace {

using Kind = schedule::StepInstruction::Kind;

int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

}  // namespace

observe::Trace step_trace(const DetailedPrediction& detailed, const machine::Machine& machine,
                          const std::vector<int64_t>& stages) {
  observe::Trace trace;
  for (const int64_t stage : stages) {
    const auto index = static_cast<size_t>(stage);
    const schedule::StepInstructions& list = detailed.lists.at(index);
    const std::vector<schedule::TimeInterval>& intervals = detailed.simulation.stages.at(index).intervals;
    std::vector<observe::Lane> lanes(1 + detailed.num_links);
    lanes.front() = {.name = "computation", .rank = stage};
    for (size_t link = 0; link < detailed.num_links; ++link) {
      const std::string tier = machine.tiers.empty() ? "link" : machine.tiers[link].name;
      lanes[1 + link] = {.name = "links of the " + tier, .rank = stage};
    }
    for (size_t i = 0; i < list.size(); ++i) {
      const auto [start, end] = intervals[i];
      // The end of a movement is a wait, not work.
      if (start == end || list[i].kind == Kind::end_movement) continue;
      const size_t lane = is_transfer(list[i].kind) ? 1 + detailed.links[index][i] : 0;
      lanes[lane].spans.push_back(
          {.name = to_string(list[i]), .begin_ns = nanoseconds(start), .end_ns = nanoseconds(end)});
    }
    for (observe::Lane& lane : lanes) {
      if (!lane.spans.empty()) trace.push_back(std::move(lane));
    }
  }
  return trace;
}

}  // namespace terrace::plan
