// Walks back from the end of a simulated step, each time to what ended last before the present work could begin.
#include "terrace/plan/measured/critical_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace terrace::plan {
namespace {

using schedule::StepInstruction;
using Kind = StepInstruction::Kind;

// Simulated times are sums of the same numbers, so what waits begins when the other ends but for roundings.
constexpr double relative_tolerance = 1e-9;

class BackwardWalk {
 public:
  BackwardWalk(const std::vector<schedule::StepInstructions>& lists, const schedule::StepSimulation& simulation)
      : lists_(lists), simulation_(simulation), tolerance_(relative_tolerance * simulation.seconds) {
    occupying_.resize(lists.size());
    transfers_.resize(lists.size());
    arriving_.resize(lists.size());
    for (size_t stage = 0; stage < lists.size(); ++stage) {
      for (size_t i = 0; i < lists[stage].size(); ++i) add(stage, i);
    }
  }

  CriticalPath walk() {
    const auto later = [&](size_t a, size_t b) { return last_end(a) < last_end(b); };
    for (size_t one = 1; one < lists_.size(); ++one) stage_ = later(stage_, one) ? one : stage_;
    time_ = last_end(stage_);
    size_t stages_without_progress = 0;
    while (time_ > tolerance_ && stages_without_progress <= lists_.size()) {
      stages_without_progress = step() ? 0 : stages_without_progress + 1;
    }
    return path();
  }

 private:
  struct Work {
    size_t stage, index;
  };
  using ByEnd = std::multimap<double, Work>;

  const schedule::TimeInterval& interval(const Work& work) const {
    return simulation_.stages[work.stage].intervals[work.index];
  }
  const StepInstruction& instruction(const Work& work) const { return lists_[work.stage][work.index]; }

  void add(size_t stage, size_t i) {
    const Work work{stage, i};
    const StepInstruction& one = instruction(work);
    const auto& [start, end] = interval(work);
    if (end - start <= tolerance_) return;
    if (one.kind == Kind::begin_movement) {
      transfers_[stage].emplace(end, work);
    } else if (schedule::is_send(one.kind)) {
      arriving_[static_cast<size_t>(one.peer)].emplace(end, work);
    } else if (!schedule::is_receive(one.kind)) {
      occupying_[stage].emplace(end, work);
    }
  }

  double last_end(size_t stage) const {
    double last = 0;
    for (const ByEnd* ends : {&occupying_[stage], &transfers_[stage]}) {
      if (!ends->empty()) last = std::max(last, ends->rbegin()->first);
    }
    return last;
  }

  // The work among these that ends at the present time.
  std::optional<Work> ending_now(const ByEnd& ends) const {
    const auto found = ends.lower_bound(time_ - tolerance_);
    if (found == ends.end() || found->first > time_ + tolerance_) return std::nullopt;
    return found->second;
  }

  void take(const Work& work, const std::string& kind) {
    seconds_[{work.stage, kind}] += time_ - interval(work).start;
    time_ = interval(work).start;
  }

  // Goes back by one piece of work, or to another stage at the same time; returns whether the time has changed.
  bool step() {
    if (const auto own = ending_now(occupying_[stage_])) {
      if (instruction(*own).kind != Kind::end_movement) {
        take(*own, schedule::drawn_as(instruction(*own).kind));
        return true;
      }
      if (take_transfer()) return true;
      take(*own, kind_of(instruction(*own)));
      return true;
    }
    if (take_transfer()) return true;
    if (const auto sent = ending_now(arriving_[stage_])) {
      take(*sent, "transfer of stages");
      stage_ = sent->stage;
      return true;
    }
    // The norm begins when the last stage comes to it.
    for (size_t other = 0; other < lists_.size(); ++other) {
      if (other == stage_ || !(ending_now(occupying_[other]) || ending_now(transfers_[other]))) continue;
      stage_ = other;
      return false;
    }
    const auto before = occupying_[stage_].lower_bound(time_ - tolerance_);
    time_ = before == occupying_[stage_].begin() ? 0 : std::prev(before)->first;
    return true;
  }

  bool take_transfer() {
    const auto moved = ending_now(transfers_[stage_]);
    if (moved) take(*moved, kind_of(instruction(*moved)));
    return moved.has_value();
  }

  static std::string kind_of(const StepInstruction& movement) {
    return std::string("transfer of ") + schedule::group_of(movement.movement, movement.hop);
  }

  CriticalPath path() const {
    CriticalPath path{.seconds = simulation_.seconds};
    for (const auto& [key, seconds] : seconds_) {
      path.shares.push_back({.stage = static_cast<int64_t>(key.first),
                             .kind = key.second,
                             .seconds = seconds,
                             .share = seconds / simulation_.seconds});
    }
    std::ranges::stable_sort(path.shares, std::ranges::greater(), &PathShare::seconds);
    return path;
  }

  const std::vector<schedule::StepInstructions>& lists_;
  const schedule::StepSimulation& simulation_;
  const double tolerance_;
  std::vector<ByEnd> occupying_, transfers_, arriving_;  // by stage
  std::map<std::pair<size_t, std::string>, double> seconds_;
  size_t stage_ = 0;
  double time_ = 0;
};

}  // namespace

CriticalPath critical_path(const std::vector<schedule::StepInstructions>& lists,
                           const schedule::StepSimulation& simulation) {
  return BackwardWalk(lists, simulation).walk();
}

std::string text_of(const PathShare& share) {
  return fmt::format("{:.0f}% of the step is stage {}'s {}", 100 * share.share, share.stage, share.kind);
}

}  // namespace terrace::plan
