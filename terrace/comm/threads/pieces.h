// Divides a call among threads of one process into pieces that any of them may work on, in any order.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "terrace/comm/call.h"

namespace terrace::comm {

// The arguments of one member's call. Each member's post lies on its own cache lines.
struct alignas(64) Post {
  std::atomic<bool> is_posted = false;
  alignas(8) std::array<char, 8> tiny_data;  // the buffer of a tiny call, on the same cache line as its arguments
  Call call;
};

// The posts of all members, which agree in kind, type and count. A send is post 0 and its receive post 1.
struct JointCall {
  std::span<const Post> posts;             // by member
  std::span<const int64_t> in_rank_order;  // member numbers, ascending by rank

  const Call& of(int64_t member) const { return posts[static_cast<size_t>(member)].call; }
  int64_t members() const { return static_cast<int64_t>(posts.size()); }
};

struct PiecePlan {
  int64_t elements = 0;   // of each piece; the last piece of a block may have fewer
  int64_t per_block = 0;  // pieces of a block
  int64_t pieces = 0;
  int64_t bytes = 0;   // written by all pieces together
  bool small = false;  // the member that posts last does all pieces
  bool past_caches = false;
};

// True for a barrier and for a sum of a few bytes. Each member computes the result of such a call from the others'
// posts, so that only the cache lines of the posts move between cores.
bool is_tiny(const Call& call);
// Writes one member's result of a tiny call that all members have posted.
void run_tiny(const JointCall& joint, int64_t member);

// Any member's call gives the same plan.
PiecePlan plan_pieces(const Call& call, int64_t members);

// The work on a small call that a member can do before it posts: copying its own block of an all-gather.
void prepare_small(const Call& call, int64_t members, int64_t member);
void run_piece(const JointCall& joint, const PiecePlan& plan, int64_t piece);

}  // namespace terrace::comm
