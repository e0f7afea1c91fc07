// Puts sends and receives into the lists of computations.
#pragma once

#include <vector>

#include "terrace/schedule/instruction.h"
#include "terrace/schedule/placement.h"

namespace terrace::schedule {

// Each send comes right behind the computation that makes its tensor, the optimizer step at the end. Each receive is
// posted one computation before the one that takes its tensor, or earlier: before the computation that still runs when
// the tensor is made, at times in which forwards, input gradients and weight gradients all take one unit.
//
// Then even sends that wait for their receive cannot deadlock. Order all computations by their ends at those times. A
// send right behind a computation that ends at t waits for a post before which the other stage has only computations
// that end before t, and their sends; none of them waits for this one.
std::vector<Instructions> with_transfers(const std::vector<Instructions>& computations, const Placement& placement);

}  // namespace terrace::schedule
