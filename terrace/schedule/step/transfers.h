// Inserts sends and receives into the lists of computations.
#pragma once

#include <vector>

#include "terrace/schedule/pipeline/placement.h"
#include "terrace/schedule/pipeline/posting.h"
#include "terrace/schedule/step/instruction.h"

namespace terrace::schedule {

// Each send directly follows the computation that makes its tensor; the optimizer step comes last.
//
// With this order the lists cannot deadlock, even if each send waits for its receive. Proof: order all computations by
// their end times in these units. A send after a computation that ends at time t waits for a receive. In the list of
// the receiving stage, all computations before this receive end before t, so neither they nor their sends wait for the
// send.
std::vector<Instructions> with_transfers(const std::vector<Instructions>& computations, const Placement& placement,
                                         Posting posting = Posting::early);

}  // namespace terrace::schedule
