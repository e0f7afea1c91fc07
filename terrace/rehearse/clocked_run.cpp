// Gives each rank a clock with the costs of its stage, and compares instructions by their places in the lists.
#include "terrace/rehearse/clocked_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "terrace/plan/time/collective.h"

namespace terrace::rehearse {
namespace {

using Kind = schedule::StepInstruction::Kind;
using schedule::StepInstruction;

struct Placed {
  StepInstruction instruction;
  double begin = 0, end = 0;
};

// Updated weights are published at the end of a step by the executor, and at the beginning of the next one by the
// simulation, which has one step only.
bool is_publishing(const StepInstruction& one) {
  return (one.kind == Kind::begin_movement || one.kind == Kind::end_movement) &&
         one.movement == schedule::Movement::publish;
}

template <typename List, typename Make>
std::vector<Placed> without_publishing(const List& list, const Make& make) {
  std::vector<Placed> placed;
  for (size_t i = 0; i < list.size(); ++i) {
    Placed one = make(i);
    if (!is_publishing(one.instruction)) placed.push_back(std::move(one));
  }
  return placed;
}

bool computes(Kind kind) {
  return kind == Kind::forward || kind == Kind::loss || kind == Kind::backward || kind == Kind::input_gradient ||
         kind == Kind::weight_gradient;
}

double message_seconds(const plan::Target& target, int64_t from, int64_t to, double bytes) {
  const mesh::Group ends{.name = "", .ranks = {from, to}};
  const plan::GroupPlace place = plan::place_of(ends, target.machine, target.devices);
  return plan::collective_time(plan::CollectiveKind::send, bytes, place, target.machine, {}).seconds;
}

double exposed_seconds(const std::vector<Placed>& list) {
  double seconds = 0;
  for (const Placed& one : list) {
    if (one.instruction.kind == Kind::end_movement) seconds += one.end - one.begin;
  }
  return seconds;
}

}  // namespace

ClockedRun::ClockedRun(const plan::PlannedRun& planned, const plan::Target& target, const SlowParts& slow)
    : planned_(planned),
      links_{.seconds = [&target](int64_t from, int64_t to,
                                  double bytes) { return message_seconds(target, from, to, bytes); },
             .slow = slow.links},
      simulated_(planned, target),
      costs_({.seconds = [this](int64_t stage,
                                const StepInstruction& one) { return simulated_.costs.seconds(stage, one); },
              .link = [this](int64_t stage, const StepInstruction& one) { return simulated_.costs.link(stage, one); },
              .num_links = simulated_.costs.num_links(),
              .beside_calls = target.machine.device.computing_beside_calls}),
      clocks_(static_cast<size_t>(target.devices)) {
  for (int64_t rank = 0; rank < target.devices; ++rank) {
    const auto own = slow.ranks.find(rank);
    clocks_[static_cast<size_t>(rank)] = std::make_unique<RankClock>(
        costs_, planned_.mesh.coordinate(rank, "pipeline"), own == slow.ranks.end() ? 0.0 : own->second, slow.after);
  }
}

std::unique_ptr<comm::World> ClockedRun::decorate(comm::World& world) {
  return make_clocked_world(world, *clocks_.at(static_cast<size_t>(world.rank())), links_);
}

void ClockedRun::attach(train::Trainer& trainer) {
  RankClock* const own = clocks_.at(static_cast<size_t>(trainer.rank())).get();
  trainer.tell_of_steps(own);
  trainer.run_by(own);
}

double ClockedRun::end_of_step(size_t step) const {
  double end = 0;
  for (const auto& clock : clocks_) end = std::max(end, clock->step_ends().at(step));
  return end;
}

ClockedSteps ClockedRun::steps() const {
  ClockedSteps steps{.simulated_seconds = simulated_.simulation.seconds};
  const size_t count = clocks_.front()->step_ends().size();
  for (size_t step = 0; step < count; ++step) {
    steps.seconds.push_back(end_of_step(step) - (step == 0 ? 0 : end_of_step(step - 1)));
  }
  const double origin = count < 2 ? 0 : end_of_step(count - 2);
  for (int64_t stage = 0; stage < planned_.placement.stages; ++stage) compare_stage(stage, origin, steps);
  return steps;
}

// Compares the clock of the stage's first rank.
void ClockedRun::compare_stage(int64_t stage, double origin, ClockedSteps& steps) const {
  int64_t rank = 0;
  while (planned_.mesh.coordinate(rank, "pipeline") != stage) ++rank;
  const std::vector<ClockedInstruction>& executed = clock(rank).last_step();
  const schedule::StepInstructions& list = simulated_.lists.at(static_cast<size_t>(stage));
  const schedule::StageTimes& times = simulated_.simulation.stages.at(static_cast<size_t>(stage));
  const auto own = without_publishing(executed, [&](size_t i) {
    return Placed{executed[i].instruction, executed[i].begin - origin, executed[i].end - origin};
  });
  const auto simulated = without_publishing(list, [&](size_t i) {
    return Placed{list[i], times.intervals.at(i).start, times.intervals.at(i).end};
  });
  steps.exposed_seconds = std::max(steps.exposed_seconds, exposed_seconds(own));
  steps.simulated_exposed_seconds = std::max(steps.simulated_exposed_seconds, exposed_seconds(simulated));
  for (size_t i = 0; i < std::min(own.size(), simulated.size()); ++i) {
    const std::string name = fmt::format("{} of stage {}", to_string(own[i].instruction), stage);
    if (own[i].instruction != simulated[i].instruction && steps.other_order.empty()) {
      steps.other_order = fmt::format("{} in place of {}", name, to_string(simulated[i].instruction));
    }
    // Its end, since a computation begins on the clock when it begins to wait for its input.
    const double shift = own[i].end - simulated[i].end;
    if (own[i].instruction.micro_batch < 0 || !computes(own[i].instruction.kind)) continue;
    if (std::abs(shift) <= std::abs(steps.shift_seconds)) continue;
    steps.shift_seconds = shift;
    steps.shifted = name;
  }
}

}  // namespace terrace::rehearse
