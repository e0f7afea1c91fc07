// Plans the pieces of a call and runs them: sums and copies between the members' buffers.
#include "terrace/comm/threads/pieces.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "terrace/comm/sum.h"
#include "terrace/comm/threads/copy.h"

namespace terrace::comm {
namespace {

constexpr int64_t piece_bytes = 32768;
constexpr int64_t small_bytes = 16384;
// Calls that write at least this many bytes were measured to be faster with copies that bypass the caches.
constexpr int64_t past_caches_bytes = 12 << 20;

const char* source(const Call& call, int64_t element) {
  return static_cast<const char*>(call.from) + element * size_of(call.type);
}

char* target(const Call& call, int64_t element) { return static_cast<char*>(call.to) + element * size_of(call.type); }

struct Copy {
  const PiecePlan& plan;
  int64_t count;

  void operator()(const Call& from, int64_t from_element, const Call& to, int64_t to_element) const {
    const char* const read = source(from, from_element);
    char* const written = target(to, to_element);
    const auto bytes = static_cast<size_t>(count * size_of(from.type));
    if (read == written) return;
    if (plan.past_caches) {
      copy_past_caches(written, read, bytes);
    } else {
      std::memcpy(written, read, bytes);
    }
  }
};

// One pointer for each member of a call, on the stack where there are few members.
template <typename T>
class Pointers {
 public:
  explicit Pointers(int64_t n) {
    if (n > static_cast<int64_t>(few_.size())) many_.resize(static_cast<size_t>(n));
    all_ = {many_.empty() ? few_.data() : many_.data(), static_cast<size_t>(n)};
  }
  std::span<T> all() { return all_; }
  T& operator[](int64_t i) { return all_[static_cast<size_t>(i)]; }

 private:
  std::array<T, 16> few_;
  std::vector<T> many_;
  std::span<T> all_;
};

// Sums the elements [begin, begin + count) of block `block` of every member's `from`, in ascending order of ranks.
void sum_piece(const JointCall& joint, int64_t block, int64_t begin, int64_t count) {
  const Call& first = joint.of(0);
  const int64_t n = joint.members();
  Pointers<const void*> from(n);
  const int64_t offset = block * first.count;
  for (int64_t i = 0; i < n; ++i) from[i] = source(joint.of(joint.in_rank_order[static_cast<size_t>(i)]), offset);
  if (first.kind == Kind::reduce_scatter) {
    void* to = joint.of(block).to;
    return sum_members(first.type, from.all(), {&to, 1}, begin, count);
  }
  Pointers<void*> to(n);
  for (int64_t i = 0; i < n; ++i) to[i] = joint.of(i).to;
  sum_members(first.type, from.all(), to.all(), begin, count);
}

int64_t num_blocks(Kind kind, int64_t members) {
  switch (kind) {
    case Kind::all_reduce:
    case Kind::broadcast:
    case Kind::send:
    case Kind::receive:
      return 1;
    case Kind::reduce_scatter:
    case Kind::all_gather:
      return members;
    case Kind::all_to_all:
      return members * members;
    case Kind::barrier:
      return 0;
  }
  return 0;
}

}  // namespace

bool is_tiny(const Call& call) {
  constexpr auto most_bytes = static_cast<int64_t>(sizeof(Post::tiny_data));
  return call.kind == Kind::barrier || (call.kind == Kind::all_reduce && call.count * size_of(call.type) <= most_bytes);
}

void run_tiny(const JointCall& joint, int64_t member) {
  const Call& call = joint.of(member);
  if (call.count == 0) return;
  const int64_t n = joint.members();
  Pointers<const void*> from(n);
  for (int64_t i = 0; i < n; ++i) {
    from[i] = joint.posts[static_cast<size_t>(joint.in_rank_order[static_cast<size_t>(i)])].tiny_data.data();
  }
  void* to = call.to;
  sum_members(call.type, from.all(), {&to, 1}, 0, call.count);
}

PiecePlan plan_pieces(const Call& call, int64_t members) {
  const int64_t blocks = num_blocks(call.kind, members);
  PiecePlan plan;
  plan.elements = piece_bytes / size_of(call.type);
  plan.per_block = (call.count + plan.elements - 1) / plan.elements;
  plan.pieces = plan.per_block * blocks;
  plan.bytes = blocks * call.count * size_of(call.type);
  if (call.kind == Kind::all_reduce || call.kind == Kind::all_gather) plan.bytes *= members;
  if (call.kind == Kind::broadcast) plan.bytes *= members - 1;
  plan.small = plan.pieces <= 1 || plan.bytes <= small_bytes;
  plan.past_caches = plan.bytes >= past_caches_bytes;
  return plan;
}

void prepare_small(const Call& call, int64_t members, int64_t member) {
  if (call.kind != Kind::all_gather || call.count == 0) return;
  const PiecePlan plan = plan_pieces(call, members);
  if (plan.small) Copy{plan, call.count}(call, 0, call, member * call.count);
}

void run_piece(const JointCall& joint, const PiecePlan& plan, int64_t piece) {
  const Call& call = joint.of(0);
  const int64_t members = joint.members();
  const int64_t block = piece / plan.per_block;
  const int64_t begin = piece % plan.per_block * plan.elements;
  const int64_t count = std::min(plan.elements, call.count - begin);
  const Copy copy{plan, count};
  switch (call.kind) {
    case Kind::all_reduce:
    case Kind::reduce_scatter:
      return sum_piece(joint, block, begin, count);
    case Kind::all_gather:
      for (int64_t i = 0; i < members; ++i) {
        if (i != block || !plan.small) copy(joint.of(block), begin, joint.of(i), block * call.count + begin);
      }
      return;
    case Kind::all_to_all: {
      const int64_t from = block / members, to = block % members;
      return copy(joint.of(from), to * call.count + begin, joint.of(to), from * call.count + begin);
    }
    case Kind::broadcast:
      for (int64_t i = 0; i < members; ++i) {
        if (i != call.peer) copy(joint.of(call.peer), begin, joint.of(i), begin);
      }
      return;
    case Kind::send:
    case Kind::receive:
      return copy(joint.of(0), begin, joint.of(1), begin);
    case Kind::barrier:
      return;
  }
}

}  // namespace terrace::comm
