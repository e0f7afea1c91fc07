// Sets the threads and the allocation of memory for the whole process before training starts.
#pragma once

#include <cstdint>

namespace terrace::train {

// Computes with so many threads, and keeps freed memory from step to step. To be called before the first tensor is
// made.
void prepare_machine(int64_t threads);

// Ends the threads with which the calling thread has computed. To be called before other threads compute: OpenMP counts
// idle threads too, and where it counts more threads than processors, all of them sleep after every loop and must be
// woken for the next.
void end_idle_threads();

}  // namespace terrace::train
