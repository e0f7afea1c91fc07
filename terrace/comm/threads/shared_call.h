// A call that the threads of a group make together, and the queue in which each thread finds its next call.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "terrace/comm/threads/pieces.h"

namespace terrace::comm {

struct CallPage;

// The call is gathering until all members have posted, and then open until the members that wait for it have done all
// pieces. An open call always completes, so that no member's buffers are touched after the member has given up.
class SharedCall {
 public:
  enum State : uint32_t { gathering, open, complete, refused };

  State state() const { return static_cast<State>(state_.load(std::memory_order_acquire)); }
  // Reads the state after all earlier stores of this thread, such as the store that announces that it will sleep.
  State state_after_stores() const { return static_cast<State>(state_.load(std::memory_order_seq_cst)); }

  // Posts a tiny call, whose state() is not used, and returns whether all members have posted. Each member that sees
  // this computes its own result by run_tiny().
  bool post_tiny(int64_t member, const Call& call);
  bool all_posted() const;
  void run_tiny(int64_t member, std::span<const int64_t> in_rank_order) const;

  // Posts any other call. Returns true for the member that posts last, which alone then calls run_or_open() or
  // refuse().
  bool post(int64_t member, const Call& call);
  bool has_posted(int64_t member) const { return posts_[static_cast<size_t>(member)].is_posted.load(); }
  const Call& posted(int64_t member) const { return posts_[static_cast<size_t>(member)].call; }
  int64_t members() const { return static_cast<int64_t>(posts_.size()); }

  // Completes a small call at once. A large call becomes open, and its pieces wait for members that call help().
  void run_or_open(std::span<const int64_t> in_rank_order);
  void refuse(const std::string& reason);
  const std::string& refusal() const { return refusal_; }

  // Claims and does up to `most` pieces; returns true where this completed the call.
  bool help(int64_t most);

  // Keeps the call from ever opening. Returns false where all members have posted, so that the call will complete.
  bool give_up();

 private:
  friend class CallQueue;
  friend struct CallPage;
  static constexpr uint32_t given_up = 1U << 31;

  // Separate cache lines for what posting members write, what waiting members read, what the last member to post writes
  // and what helping members write.
  alignas(64) std::atomic<uint32_t> num_posted_ = 0;
  alignas(64) std::atomic<uint32_t> state_ = gathering;
  alignas(64) JointCall joint_;
  PiecePlan plan_;
  alignas(64) std::atomic<int64_t> next_piece_ = 0;
  std::atomic<int64_t> pieces_done_ = 0;
  std::span<Post> posts_;
  CallPage* page_ = nullptr;
  std::string refusal_;
};

// The calls of a group in their order, in pages that are recycled when all members have left all their calls. The
// number of calls under way is not bounded.
class CallQueue {
 public:
  explicit CallQueue(int64_t members);
  ~CallQueue();
  CallQueue(const CallQueue&) = delete;

  // The next call of one member.
  struct Position {
    CallPage* page = nullptr;
    size_t index = 0;
  };

  Position start() const { return {first_, 0}; }
  // Returns the call at the position and advances the position. Each member takes each call once.
  SharedCall& take(Position& position);
  // Says that the member will not read the call again.
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
