// The steps of an all-gather by doubling: log2(n) messages for n members, instead of the n - 1 of a ring (Bruck et al.
// 1997, "Efficient algorithms for all-to-all communications in multiport message-passing systems", doi
// 10.1109/71.642949). Members may be any number.
#pragma once

#include <cstdint>
#include <vector>

namespace terrace::comm {

// Blocks of the gathered buffer that follow each other.
struct BlockRun {
  int64_t begin = 0, count = 0;

  bool operator==(const BlockRun&) const = default;
};

// One step of a member: it sends blocks that it has to one member and receives as many others from another one. Each
// side has one run of blocks, or two where their numbers wrap around at the last member; a sender and its receiver have
// the same runs in the same order.
struct DoublingStep {
  int64_t to = 0, from = 0;
  std::vector<BlockRun> sent, received;
};

// Returns the steps of a member in order; none where there is one member. Before the first step a member has the block
// of its own number. A member sends messages to another one in one step only.
std::vector<DoublingStep> doubling_steps(int64_t members, int64_t member);

}  // namespace terrace::comm
