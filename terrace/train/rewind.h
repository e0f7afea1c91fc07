// The two ways in which a run leaves its steps because something is wrong that nothing refused.
#pragma once

#include <cstdint>
#include <string>

#include "terrace/comm/comm.h"

namespace terrace::train {

// A rank computed or kept something wrong, which checks found (state_check.h, computation_check.h). As where a rank
// dies, the machine is to blame, and the program ends with exit code 5.
class CorruptionError : public comm::CommError {
 public:
  using comm::CommError::CommError;
};

// Thrown by all ranks of a run together: the run is to begin again from its newest checkpoint, in the same processes.
// No std::exception, so that nobody takes it for a failure.
struct Rewind {
  enum class Cause { corruption, spike };

  Cause cause = Cause::corruption;
  int64_t step = 0;         // in which it was found
  int64_t began_after = 0;  // the step of the checkpoint that this start began with; 0: none
  std::string reason = {};
};

}  // namespace terrace::train
