// The Comm of a rank that is a thread. The members that wait for a call do its work together.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "terrace/comm/comm.h"
#include "terrace/comm/threads/thread_ranks.h"

namespace terrace::comm {

// A queue of calls as one of its ranks sees it: the collectives of a group, or the messages from one member to another.
struct QueueView {
  ThreadRanks& all;
  CallQueue& queue;
  const mesh::Group& group;
  mesh::SharedRanks ranks;                 // that share the queue
  std::span<const int64_t> in_rank_order;  // indices into ranks; outlives the view
  int64_t own;                             // index of this rank
  CallQueue::Position next;

  int64_t own_rank() const { return ranks[static_cast<size_t>(own)]; }
  void notify_others() const;
};

class ThreadComm : public Comm {
 public:
  ThreadComm(ThreadRanks& all, ThreadChannel& channel, int64_t member);

 private:
  Work start(const Call& call, Owner owner) override;
  QueueView& view_for(const Call& call);

  ThreadRanks& all_;
  ThreadChannel& channel_;
  QueueView collectives_;
  std::map<int64_t, QueueView> sends_;     // by receiver
  std::map<int64_t, QueueView> receives_;  // by sender
};

}  // namespace terrace::comm
