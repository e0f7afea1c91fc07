// Sets the number of threads and the allocation of memory for the whole process before training starts.
#pragma once

#include <cstdint>

namespace terrace::train {

// Computes with so many threads, and keeps freed memory from step to step. To be called before the first tensor is
// made.
void prepare_machine(int64_t threads);

}  // namespace terrace::train
