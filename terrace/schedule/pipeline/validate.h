// Checks the properties that the lists of every schedule must have.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "terrace/schedule/pipeline/live.h"
#include "terrace/schedule/pipeline/placement.h"

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
// - The lists complete without deadlock with buffered sends (a send never waits), with rendezvous sends (a send waits
//   until its receive is posted), and where the transfers of a queue move in order, with a queue for each direction.
//   MPI and ranks as threads, which start nonblocking sends and wait for them later, are between the first two cases;
//   NCCL is the third.
std::string validate(const std::vector<Instructions>& lists, const Placement& placement, int64_t micro_batches,
                     const std::vector<Live>& bounds);

// The queue of a stage on which a send or receive is made, as any number. A stage starts its transfers in the order of
// its list, when the computations before them are complete, and no stage waits in them. The transfers of one queue move
// one after another, each when it is the next one of its queue at the other stage too.
using QueueOf = std::function<int64_t(int64_t stage, const Instruction& transfer)>;

// The computations before which stages wait for ever if each stage waits before each computation until all transfers
// that it has begun have moved; "" if there are none. Only lists with Posting::careful have none.
std::string find_deadlock_of_drains(const std::vector<Instructions>& lists, const Placement& placement,
                                    int64_t micro_batches);

// The instructions at which stages wait for ever; "" if there are none. The lists must be valid otherwise.
std::string find_deadlock(const std::vector<Instructions>& lists, const Placement& placement, int64_t micro_batches,
                          const QueueOf& queue_of);

}  // namespace terrace::schedule
