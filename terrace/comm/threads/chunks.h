// One call among members whose buffers are all in reach, cut into chunks that any thread may do in any order.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "terrace/comm/call.h"

namespace terrace::comm {

// What one member asked for, on cache lines of its own.
struct alignas(64) Post {
  std::atomic<bool> there = false;
  alignas(8) std::array<char, 8> tiny_data;  // of a tiny call, on the same line as the numbers of the call
  Call call;
};

// What all members asked for, alike in kind, type and count. A send and its receive are posts 0 and 1.
struct JointCall {
  std::span<const Post> posts;             // by member
  std::span<const int64_t> in_rank_order;  // members

  const Call& of(int64_t member) const { return posts[static_cast<size_t>(member)].call; }
  int64_t members() const { return static_cast<int64_t>(posts.size()); }
};

struct ChunkPlan {
  int64_t elements = 0;   // of a chunk but the last one of a block
  int64_t per_block = 0;  // chunks
  int64_t chunks = 0;
  int64_t bytes = 0;   // that are written
  bool small = false;  // the last to post does it all
  bool past_caches = false;
};

// Calls that each member does for itself from the others' posts: a barrier, and a sum of a few bytes. No line of memory
// moves between cores but those of the posts.
bool is_tiny(const Call& call);
// The member's part of a tiny call that all have posted.
void run_tiny(const JointCall& joint, int64_t member);

// Of a call that any of the members has posted, or will.
ChunkPlan plan_chunks(const Call& call, int64_t members);

// What a member can do of a small call before it posts it: its own block of an all-gather.
void prepare_small(const Call& call, int64_t members, int64_t member);
void run_chunk(const JointCall& joint, const ChunkPlan& plan, int64_t chunk);

}  // namespace terrace::comm
