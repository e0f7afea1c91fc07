// Proves of the lists of all stages what must hold for every schedule.
#pragma once

#include <string>
#include <vector>

#include "terrace/schedule/live.h"
#include "terrace/schedule/placement.h"

namespace terrace::schedule {

// What is wrong with the lists, naming stage and instruction; "" where nothing is. It holds of each stage that
// - every micro-batch has in every chunk one forward, and either one backward or an input gradient and, later, a weight
//   gradient; each kind in ascending order of the micro-batches, a backward counting as both gradients;
// - a computation comes after what it takes: after the receive if that is made on another stage, after the computation
//   that makes it if that is on this one; and every tensor for another stage is sent once, after it was made, to the
//   stage that takes it;
// - at no time is more alive than its bound says;
// - the optimizer step comes once, last, and after everything;
// and of all together that
// - between any two stages, the receives on one are in the order of the sends on the other;
// - they come to their ends in two ways of executing sends: buffered (a send never waits), and rendezvous (a send waits
//   until its receive is posted). An executor whose sends are nonblocking and waited for some time later lies between
//   the two.
std::string validate(const std::vector<Instructions>& lists, const Placement& placement, int64_t micro_batches,
                     const std::vector<Live>& bounds);

}  // namespace terrace::schedule
