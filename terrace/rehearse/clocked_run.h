// The clocks of all ranks of a timed rehearsal, and how their last step compares with the simulated one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/plan/planned_run.h"
#include "terrace/plan/target.h"
#include "terrace/plan/time/simulated_step.h"
#include "terrace/rehearse/clocked_world.h"
#include "terrace/rehearse/rank_clock.h"
#include "terrace/train/trainer.h"

namespace terrace::rehearse {

// Seconds on the machine.
struct ClockedSteps {
  std::vector<double> seconds = {};  // of each step, from the end of the one before on the last of all clocks
  double simulated_seconds = 0;      // of a step, by terrace simulate
  // The computation that begins furthest from where it begins in the simulated step, and by how much.
  std::string shifted = {};
  double shift_seconds = 0;
  // The first instruction of a stage whose place in the order differs from the simulated one; "": none.
  std::string other_order = {};
  // The most that a stage waits in a step for the ends of movements, on its clock and in the simulation.
  double exposed_seconds = 0, simulated_exposed_seconds = 0;
};

// Ranks and links that become slow in a timed rehearsal: on the clocks they take 1 + so much as long.
struct SlowParts {
  std::map<int64_t, double> ranks = {};                      // their computations
  std::map<std::pair<int64_t, int64_t>, double> links = {};  // as ClockedLinks::slow
  int64_t after = 0;                                         // steps
};

class ClockedRun {
 public:
  // Both references outlive this object.
  ClockedRun(const plan::PlannedRun& planned, const plan::Target& target, const SlowParts& slow);

  // Called by each rank once, in this order.
  std::unique_ptr<comm::World> decorate(comm::World& world);
  void attach(train::Trainer& trainer);

  // Called when all ranks have ended.
  ClockedSteps steps() const;
  const RankClock& clock(int64_t rank) const { return *clocks_.at(static_cast<size_t>(rank)); }

 private:
  void compare_stage(int64_t stage, double origin, ClockedSteps& steps) const;
  double end_of_step(size_t step) const;

  const plan::PlannedRun& planned_;
  ClockedLinks links_;
  plan::SimulatedStep simulated_;
  schedule::StepCosts costs_;
  std::vector<std::unique_ptr<RankClock>> clocks_;  // by rank
};

}  // namespace terrace::rehearse
