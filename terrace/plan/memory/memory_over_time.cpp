// Follows the list of a stage and adds up what its instructions take and free.
#include "terrace/plan/memory/memory_over_time.h"

#include <algorithm>
#include <map>
#include <utility>

#include "terrace/plan/memory/movement_memory.h"
#include "terrace/plan/memory/stage_memory.h"

namespace terrace::plan {
namespace {

using schedule::Movement;
using schedule::StepInstruction;
using Kind = StepInstruction::Kind;

// A change of the bytes in use at a time.
struct MemoryChange {
  double seconds = 0;
  double bytes = 0;
};

class Changes {
 public:
  Changes(const SimulatedStep& step, int64_t stage)
      : run_(step.run),
        intervals_(step.simulation.stages.at(static_cast<size_t>(stage)).intervals),
        list_(step.lists.at(static_cast<size_t>(stage))) {
    double reached = 0;  // when the rank comes to the instruction, whose transfer may begin later
    for (size_t i = 0; i < list_.size(); ++i) {
      add(list_[i], intervals_[i]);
      add_movement(list_[i], reached, intervals_[i]);
      if (!is_transfer(list_[i].kind)) reached = intervals_[i].end;
    }
    std::ranges::stable_sort(changes_, {}, &MemoryChange::seconds);
  }

  const std::vector<MemoryChange>& list() const { return changes_; }

 private:
  double kept(int64_t segment) const {
    return static_cast<double>(
        schedule::kept_bytes(run_.largest_table(), run_.partition().segment(segment), run_.recompute_of(segment)));
  }
  double deferred(int64_t segment) const {
    return static_cast<double>(schedule::deferred_bytes(run_.largest_table(), run_.partition().segment(segment)));
  }
  double weights(int64_t segment) const { return static_cast<double>(run_.gathered_bytes(segment)); }
  double gradients(int64_t segment) const { return static_cast<double>(run_.reduced_bytes(segment)); }

  void at(double seconds, double bytes) {
    if (bytes != 0) changes_.push_back({seconds, bytes});
  }
  void during(const schedule::TimeInterval& interval, double bytes) {
    at(interval.start, bytes);
    at(interval.end, -bytes);
  }

  void add(const StepInstruction& one, const schedule::TimeInterval& interval) {
    switch (one.kind) {
      case Kind::forward:
        during(interval, temporary_bytes(run_, one.segment, false));
        return at(interval.end, kept(one.segment));
      case Kind::loss:
        return during(interval, kept(one.segment) + temporary_bytes(run_, one.segment, true));
      case Kind::backward:
        during(interval, temporary_bytes(run_, one.segment, true));
        return at(interval.end, -kept(one.segment));
      case Kind::input_gradient:
        during(interval, temporary_bytes(run_, one.segment, true));
        return at(interval.end, deferred(one.segment) - kept(one.segment));
      case Kind::weight_gradient:
        return at(interval.end, -deferred(one.segment));
      case Kind::begin_movement:
        if (one.movement == Movement::gather_weights && is_first_hop(one)) at(interval.start, weights(one.segment));
        return;
      case Kind::release:
        return at(interval.end, -weights(one.segment));
      case Kind::allocate_gradient:
        return at(interval.start, gradients(one.segment));
      case Kind::end_movement:
        if (one.movement == Movement::reduce && is_first_hop(one)) at(interval.end, -gradients(one.segment));
        return;
      default:
        return;
    }
  }

  // Adds the memory that the call takes beside whole weights and gradients.
  void add_movement(const StepInstruction& one, double reached, const schedule::TimeInterval& interval) {
    const bool begins = one.kind == Kind::begin_movement;
    if (!begins && one.kind != Kind::end_movement) return;
    const CallMemory memory = call_memory(run_, one);
    const auto most = static_cast<double>(begins ? memory.beginning : memory.ending);
    const auto after = static_cast<double>(begins ? memory.moving : memory.after);
    const double seconds = begins ? reached : interval.end;
    double& taken = taken_[{one.segment, one.movement}];
    at(seconds, most - taken);
    at(seconds, after - most);
    taken = after;
  }

  const PlannedRun& run_;
  const std::vector<schedule::TimeInterval>& intervals_;
  const schedule::StepInstructions& list_;
  std::map<std::pair<int64_t, Movement>, double> taken_;  // by movements under way, of segments
  std::vector<MemoryChange> changes_;
};

}  // namespace

std::vector<observe::MemorySample> memory_over_time(const SimulatedStep& step, int64_t stage) {
  const StageMemory memory = stage_memory(step.run, stage, step.target.software);
  const double slack = 1 + step.target.software.allocator_slack;
  double bytes = memory.of(MemoryKind::communication);
  std::vector<observe::MemorySample> samples = {{.seconds = 0, .bytes = memory.states() + slack * bytes}};
  const Changes changes(step, stage);
  for (const auto& [seconds, change] : changes.list()) {
    bytes += change;
    samples.push_back({seconds, memory.states() + slack * bytes});
  }
  return samples;
}

}  // namespace terrace::plan
