// Checks the properties that the lists of every schedule must have.
#pragma once

#include <string>
#include <vector>

#include "terrace/schedule/live.h"
#include "terrace/schedule/placement.h"

namespace terrace::schedule {

// The first violation, with stage and instruction; "" if the lists are valid. For each stage:
// - In every chunk, every micro-batch has one forward and either one backward or an input gradient and, later, a weight
//   gradient. Each kind is in ascending order of the micro-batches, where a backward counts as both gradients.
// - A computation follows the receive of the tensor that it takes, or the computation on this stage that makes the
//   tensor. Every tensor for another stage is sent once, after it was made, to the stage that takes it.
// - The tensors that are alive never exceed their bound.
// - The optimizer step comes once and last.
// For all stages together:
// - Between any two stages, the receives of one are in the order of the sends of the other.
// - The lists complete without deadlock both with buffered sends (a send never waits) and with rendezvous sends (a send
//   waits until its receive is posted). An executor that starts nonblocking sends and waits for them later is between
//   these two cases.
std::string validate(const std::vector<Instructions>& lists, const Placement& placement, int64_t micro_batches,
                     const std::vector<Live>& bounds);

}  // namespace terrace::schedule
