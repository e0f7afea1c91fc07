// Operations of torch that wait for all work of the GPU, in the program over the stand-in for GPUs.
#pragma once

namespace terrace::parallel {

enum class Drains {
  at_every_operation,  // as where each is used for the first time or returns memory
  at_first_uses        // of operations that were not used since drains were last at every operation
};

// Chooses the operations of this thread that wait from here on; before the first call none does. In the program without
// the stand-in it does nothing.
void drain(Drains when);
void stop_drains();

}  // namespace terrace::parallel
