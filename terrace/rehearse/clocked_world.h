// A World whose messages carry the clocks of the ranks.
#pragma once

#include <memory>

#include "terrace/comm/comm.h"
#include "terrace/rehearse/rank_clock.h"

namespace terrace::rehearse {

// Each call of `inner` is accompanied by a small one with the clocks of its members: a collective ends on all clocks
// when the last member's transfer ends, and a message arrives when its sender's transfer ends, or as long after it is
// awaited. Both references outlive the result.
std::unique_ptr<comm::World> make_clocked_world(comm::World& inner, RankClock& clock);

}  // namespace terrace::rehearse
