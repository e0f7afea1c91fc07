// Is told of the instructions of a step while a rank executes them.
#pragma once

#include "terrace/schedule/step/step.h"

namespace terrace::train {

// Called on the thread that trains, in the order of the list.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  virtual void begin_step() = 0;
  virtual void begin(const schedule::StepInstruction& instruction) = 0;
  virtual void end(const schedule::StepInstruction& instruction) = 0;
  virtual void end_step() = 0;
};

}  // namespace terrace::train
