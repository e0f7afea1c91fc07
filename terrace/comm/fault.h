// A World that injects faults into calls, for tests of how a run fails.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "terrace/comm/comm.h"

namespace terrace::comm {

struct Fault {
  enum class Effect {
    delay,    // the call starts later; the rank sleeps meanwhile
    drop,     // the call is not made and is reported as complete
    corrupt,  // the lowest bit of the middle byte that the call writes or sends is flipped
  };

  Effect effect = Effect::drop;
  // Returns whether the fault affects a call of the rank. The first fault of the list that hits a call counts.
  std::function<bool(int64_t rank, const mesh::Group& group, const Call& call)> hits;
  double delay_seconds = 0.0;
};

// Adds faults to the rank's world `inner`, which outlives the result. Dropped calls are counted by the Comm of this
// world and not by the inner one, so their sequence numbers differ afterwards.
std::unique_ptr<World> make_faulty_world(World& inner, std::vector<Fault> faults);

}  // namespace terrace::comm
