// A World that injects faults into calls, for tests of how a run fails and of what names the rank or link at fault.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "terrace/comm/comm.h"

namespace terrace::comm {

struct Fault {
  enum class Effect {
    delay,      // the call starts later; the rank sleeps meanwhile
    drop,       // the call is not made and is reported as complete
    corrupt,    // the lowest bit of the middle byte that the call writes or sends is flipped
    slow_rank,  // the rank sleeps before the call, in proportion to what it has computed since the call before
    slow_link,  // the wait for the call ends later, in proportion to its bytes
  };

  Effect effect = Effect::drop;
  // Returns whether the fault affects a call of the rank. The first fault of the list that hits a call counts.
  std::function<bool(int64_t rank, const mesh::Group& group, const Call& call)> hits;
  double delay_seconds = 0.0;
  double slowness = 0.0;          // slow_rank: computing takes 1 + slowness times as long
  double seconds_per_byte = 0.0;  // slow_link: of the bytes that a member sends in the call, or receives
};

// From when `active` is true (null: always), what the rank computes between its calls takes 1 + slowness times as long.
// Waits do not count as computing, nor do, where the kernel counts them, times without a free core. Only the thread
// that makes the world computes.
Fault slow_rank(int64_t rank, double slowness, const std::atomic<bool>* active = nullptr);

// From when `active` is true (null: always), a byte between the two ranks takes so many seconds more: messages between
// them, and collectives of groups that have both, for all members. This time is never hidden behind computation.
Fault slow_link(int64_t rank, int64_t other, double seconds_per_byte, const std::atomic<bool>* active = nullptr);

// Adds faults to the rank's world `inner`, which outlives the result. Dropped calls are counted by the Comm of this
// world and not by the inner one, so their sequence numbers differ afterwards.
std::unique_ptr<World> make_faulty_world(World& inner, std::vector<Fault> faults);

}  // namespace terrace::comm
