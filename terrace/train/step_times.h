// Sums up what a rank's time in a step goes to, without its waits for other ranks, at the cost of reading a clock once
// an instruction.
#pragma once

#include <c10/core/Device.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "terrace/base/system/core_wait.h"
#include "terrace/comm/comm.h"
#include "terrace/observe/slow_ranks.h"
#include "terrace/schedule/step/step.h"
#include "terrace/train/run_clock.h"

namespace terrace::train {

// Waits are those in the calls of the given communicators. On a CPU time passes between two marks of the thread; where
// ranks share cores, time without a free core does not count. On a GPU the times are those of the device's stream, and
// of one step before, since nothing is waited for; calls inside a computation, as those of tensor parallelism, count as
// computing there, so the members of a tensor group are equally slow.
class StepTimes {
 public:
  // Made and used on the thread that trains. The communicators and the clock outlive the object; with a clock, waits
  // are those that it counts.
  StepTimes(const c10::Device& device, std::vector<comm::Comm*> groups, bool shares_cores,
            const RunClock* clock = nullptr);
  ~StepTimes();
  StepTimes(const StepTimes&) = delete;
  StepTimes& operator=(const StepTimes&) = delete;

  // Around the marks of a step.
  void begin_step();
  void end_step() { in_step_ = false; }
  // The time since the last mark went to `kind`, or to nothing that counts.
  void mark(observe::WorkKind kind);
  void skip();
  // As mark() and skip(), where the executor has carried out an instruction or waited for another stage's tensors.
  void mark(const schedule::StepInstruction& instruction);
  void waited();

  // The seconds of the last step that is known.
  const observe::WorkSeconds& seconds() const { return seconds_; }
  // The share of the time since the last call for which this thread was ready to run while no core was free.
  double take_core_wait_share();

 private:
  class DeviceMarks;  // events in the stream of a GPU
  struct Moment {
    double seconds = 0, waited = 0, core_wait = 0, core_wait_in_waits = 0;
  };
  Moment now() const;

  std::vector<comm::Comm*> groups_;
  const RunClock* clock_;
  ThreadCoreWait cores_;
  comm::WaitTime waits_;
  Moment last_;
  std::chrono::steady_clock::time_point share_from_;
  double share_core_wait_ = 0;
  observe::WorkSeconds seconds_ = {};
  bool in_step_ = false;
  std::unique_ptr<DeviceMarks> device_;
};

}  // namespace terrace::train
