// What is set for the whole program before training.
#pragma once

#include <cstdint>

namespace terrace::train {

// The number of threads that compute, and memory that is kept from step to step. Call it before the first tensor.
void prepare_machine(int64_t threads);

}  // namespace terrace::train
