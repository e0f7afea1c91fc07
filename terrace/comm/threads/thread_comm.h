// The Comm of a rank that is a thread: each call is made together, by whoever comes to wait.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/comm/threads/thread_ranks.h"

namespace terrace::comm {

// One order of calls as one of the threads sees it that take part: the collectives of a group, or what one member sends
// to another.
struct ThreadLine {
  ThreadRanks& all;
  CallQueue& queue;
  const mesh::Group& group;
  std::vector<int64_t> ranks;          // that take part
  std::vector<int64_t> in_rank_order;  // indices into ranks
  int64_t own;                         // index of this rank
  CallQueue::Place next;

  int64_t own_rank() const { return ranks[static_cast<size_t>(own)]; }
  void ring_others() const;
};

class ThreadComm : public Comm {
 public:
  ThreadComm(ThreadRanks& all, ThreadChannel& channel, int64_t member);

 private:
  Work start(const Call& call, Owner owner) override;
  ThreadLine& line_of(const Call& call);

  ThreadRanks& all_;
  ThreadChannel& channel_;
  ThreadLine collectives_;
  std::map<int64_t, ThreadLine> sends_;     // by receiver
  std::map<int64_t, ThreadLine> receives_;  // by sender
};

}  // namespace terrace::comm
