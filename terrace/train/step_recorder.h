// Records when a rank works on each instruction of a step and how much memory its tensors take, at the cost of reading
// a clock twice an instruction.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "terrace/memory/meter.h"
#include "terrace/observe/step_record.h"
#include "terrace/schedule/step/step.h"

namespace terrace::train {

// An instruction of a recorded step: how long its rank waited for another stage's tensors, and its time from then on.
struct TimedInstruction {
  schedule::StepInstruction instruction;
  double waited_seconds = 0, seconds = 0;
};

// The executor calls it in the order of the list. On a GPU the times are those of the device's stream, which is waited
// for once, at the end of the step.
class StepRecorder {
 public:
  // `meter` counts the tensors of this thread.
  StepRecorder(const c10::Device& device, std::shared_ptr<memory::Meter> meter);
  ~StepRecorder();

  void begin_step();
  void begin(const schedule::StepInstruction& instruction);
  // Says that the time since the beginning of the present instruction was a wait for another stage.
  void waited();
  void end();

  // The last step: its events, seconds and memory over time; `memory_bytes` is left to the caller.
  observe::StageRecord stage_record() const;
  // The instructions of the last step, in the order of the list.
  std::vector<TimedInstruction> timed() const;
  // The most bytes of tensors during the last step.
  double peak_bytes() const;

 private:
  class Clock;  // the host's clock, or events in the stream of a GPU
  struct Entry {
    schedule::StepInstruction instruction;
    size_t begin = 0, waited = 0, end = 0;  // marks of the clock
    int64_t bytes = 0, peak = 0;            // in use after the instruction, and the most during it
  };

  std::shared_ptr<memory::Meter> meter_;
  std::unique_ptr<Clock> clock_;
  std::vector<Entry> entries_;
};

}  // namespace terrace::train
