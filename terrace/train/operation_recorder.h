// Records every operation on tensors and every phase, in all threads, while it lives.
#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "terrace/observe/trace.h"

namespace terrace::train {

// Listens to torch's recorder, which also sees the operations of the backward pass, and turns on the records of our own
// (terrace/ops/record.h). On a GPU each operation is waited for, so that its time is the device's and not only that of
// its launch; steps are slower for it. At most one may record at a time: torch's callbacks are plain functions.
class OperationRecorder {
 public:
  struct State;

  explicit OperationRecorder(const at::Device& device);
  OperationRecorder(const OperationRecorder&) = delete;
  ~OperationRecorder();

  // Ends the recording and gives what was recorded; lanes are threads, the one that made this object first. Spans that
  // have not ended are left out. Empty when called again.
  observe::Trace finish();

 private:
  std::shared_ptr<State> state_;
};

}  // namespace terrace::train
