// A World whose messages carry the clocks of the ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "terrace/comm/comm.h"
#include "terrace/rehearse/rank_clock.h"

namespace terrace::rehearse {

// The links of a timed rehearsal.
struct ClockedLinks {
  // How long a message of so many bytes takes between two ranks.
  std::function<double(int64_t from, int64_t to, double bytes)> seconds;
  // Links that take 1 + so much as long while the clock says so, by the lower and the higher rank: for messages between
  // the two, and for calls of groups that have both.
  std::map<std::pair<int64_t, int64_t>, double> slow = {};
};

// Each call of `inner` is accompanied by a small one with the clocks of its members: a collective ends on all clocks
// when the last member's transfer ends, and a message arrives when its sender's transfer ends, or as long after it is
// awaited. All references outlive the result.
std::unique_ptr<comm::World> make_clocked_world(comm::World& inner, RankClock& clock, const ClockedLinks& links);

}  // namespace terrace::rehearse
