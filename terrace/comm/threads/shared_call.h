// A call that the threads of a group make together, and the queue in which each finds the one that the others mean.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "terrace/comm/threads/chunks.h"

namespace terrace::comm {

struct CallPage;

// Gathering until all members have posted; then open until its chunks are done, by whoever comes to wait for it. Once
// it is open it always completes, so that no member's buffers are touched after the member has given up.
class SharedCall {
 public:
  enum State : uint32_t { gathering, open, complete, refused };

  State state() const { return static_cast<State>(state_.load(std::memory_order_acquire)); }
  // As state(), and never before a store that this thread made earlier, such as the one that says it will sleep.
  State state_after_stores() const { return static_cast<State>(state_.load(std::memory_order_seq_cst)); }

  // Of a tiny call, which knows no state: whether all have posted. Each member that sees it does its own part.
  bool post_tiny(int64_t member, const Call& call);
  bool all_posted() const;
  void run_tiny(int64_t member, std::span<const int64_t> in_rank_order) const;

  // Of all others: true for the member that posts last. It alone then calls run_or_open() or refuse().
  bool post(int64_t member, const Call& call);
  bool has_posted(int64_t member) const { return posts_[static_cast<size_t>(member)].there.load(); }
  const Call& posted(int64_t member) const { return posts_[static_cast<size_t>(member)].call; }
  int64_t members() const { return static_cast<int64_t>(posts_.size()); }

  // Does a small call at once; of a large one the chunks wait for whoever comes.
  void run_or_open(std::span<const int64_t> in_rank_order);
  void refuse(const std::string& reason);
  const std::string& refusal() const { return refusal_; }

  // Does up to `most` of the chunks that nobody has claimed; true where this completed the call.
  bool help(int64_t most);

  // Keeps the call from ever opening; false where all have posted already, so that it will complete.
  bool give_up();

 private:
  friend class CallQueue;
  friend struct CallPage;
  static constexpr uint32_t given_up = 1U << 31;

  // What members write when they post, what waiting members look at, what the last to post writes and what helping
  // members write are on cache lines of their own.
  alignas(64) std::atomic<uint32_t> num_posted_ = 0;
  alignas(64) std::atomic<uint32_t> state_ = gathering;
  alignas(64) JointCall joint_;
  ChunkPlan plan_;
  alignas(64) std::atomic<int64_t> next_chunk_ = 0;
  std::atomic<int64_t> chunks_done_ = 0;
  std::span<Post> posts_;
  CallPage* page_ = nullptr;
  std::string refusal_;
};

// The calls of a group in their order, in pages that are used again when all members are through with them. There is no
// bound on the calls under way.
class CallQueue {
 public:
  explicit CallQueue(int64_t members);
  ~CallQueue();
  CallQueue(const CallQueue&) = delete;

  // Where a member is in the queue.
  struct Place {
    CallPage* page = nullptr;
    size_t index = 0;
  };

  Place start() const { return {first_, 0}; }
  // The call at the place, which moves on. Taken by each member once.
  SharedCall& take(Place& place);
  // The member will not look at the call again.
  void leave(SharedCall& call, int64_t member);

 private:
  CallPage* fresh_page();

  const int64_t members_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<CallPage>> pages_;
  std::vector<CallPage*> free_;
  CallPage* first_;
};

}  // namespace terrace::comm
