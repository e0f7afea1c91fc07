// A World whose calls go wrong as rules say: for tests of what a run does then.
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
    drop,     // the call is not made, and said to be complete
    corrupt,  // one bit, the lowest in the middle of what the call writes or sends, is turned
  };

  Effect effect = Effect::drop;
  // Of the rank's calls, those that this hits. The first fault that hits a call counts.
  std::function<bool(int64_t rank, const mesh::Group& group, const Call& call)> hits;
  double delay_seconds = 0.0;
};

// The rank's world with faults. `inner` outlives it. Dropped calls are counted by the Comm of this world, not by the
// inner one, so that sequence numbers of the two differ after them.
std::unique_ptr<World> make_faulty_world(World& inner, std::vector<Fault> faults);

}  // namespace terrace::comm
