// Refuses to save weights that are not finite.
#pragma once

#include "terrace/checkpoint/checkpoint.h"

namespace terrace::run {

// Throws std::runtime_error that names the step and the first such parameter. A checkpoint of broken weights must not
// replace a good one. Uses one thread, since threads that save must not take cores from training.
void check_finite(const checkpoint::State& state);

}  // namespace terrace::run
