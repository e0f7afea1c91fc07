// The clock of one rank of a timed rehearsal: it counts the seconds that instructions would take on the machine, in no
// time of this machine. Messages carry the clocks of their senders (clocked_world.h), so a rank waits on its clock for
// what it waits for in the run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "terrace/schedule/step/shared_link.h"
#include "terrace/schedule/step/step_times.h"
#include "terrace/train/run_clock.h"
#include "terrace/train/step_observer.h"

namespace terrace::rehearse {

// An instruction as a rank executed it, in seconds on its clock.
struct ClockedInstruction {
  schedule::StepInstruction instruction;
  double begin = 0, end = 0;
};

class RankClock : public train::StepObserver, public train::RunClock {
 public:
  // `costs` are those of the wide model on the machine and outlive the clock. After `slow_after` steps computations
  // take 1 + slowness times as long.
  RankClock(const schedule::StepCosts& costs, int64_t stage, double slowness, int64_t slow_after);

  double seconds() const override { return now_; }
  double waited() const override { return waited_; }
  void wait_until(double time) {
    waited_ += std::max(0.0, time - now_);
    now_ = std::max(now_, time);
  }
  // Whether what is to become slow is slow now.
  bool is_slow() const { return static_cast<int64_t>(step_ends_.size()) >= slow_after_; }

  // A call that begins now. The first call of a movement or send takes the instruction's seconds on its link, which it
  // shares with the calls of other communicators; a call outside a step takes `seconds_outside`, and other calls take
  // no time. All of these take 1 + slowness times as long.
  struct Transfer {
    size_t number = 0;
    double seconds = 0;  // with the link for itself
    double end = 0;      // if the rank begins no other call until then
  };
  Transfer begin_transfer(size_t communicator, double seconds_outside = 0, double slowness = 0);
  // When the transfer ends, if the rank begins no other call until then.
  double end_of(const Transfer& transfer);
  // Whether it has ended by now.
  bool has_ended(const Transfer& transfer);

  void begin_step() override;
  void begin(const schedule::StepInstruction& instruction) override;
  void end(const schedule::StepInstruction& instruction) override;
  void end_step() override;

  // The last step's instructions, and the clock at the end of each step.
  const std::vector<ClockedInstruction>& last_step() const { return executed_; }
  const std::vector<double>& step_ends() const { return step_ends_; }

 private:
  void end_transfers_until(double time);
  void end_next_transfer();
  void compute(double seconds, bool beside_calls);

  const schedule::StepCosts& costs_;
  const int64_t stage_;
  const double slowness_;
  const int64_t slow_after_;
  double now_ = 0, waited_ = 0, instruction_began_ = 0;
  std::vector<schedule::SharedLink> links_;
  double next_end_ = std::numeric_limits<double>::infinity();
  std::vector<double> ends_;                            // by transfer; negative: under way
  const schedule::StepInstruction* current_ = nullptr;  // null between instructions
  bool has_begun_call_ = false;                         // of the present instruction
  std::vector<ClockedInstruction> executed_;
  std::vector<double> step_ends_;
};

}  // namespace terrace::rehearse
