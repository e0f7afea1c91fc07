// One call of a communication operation as plain data: what every backend starts, what the flight recorder keeps, what
// is counted.
#pragma once

#include <cstdint>
#include <string>

namespace terrace::comm {

enum class Kind { all_reduce, reduce_scatter, all_gather, all_to_all, broadcast, send, receive, barrier };
inline constexpr int num_kinds = 8;

enum class Type { fp64, fp32, bf16, fp16, int64, int32, uint8 };

int64_t size_of(Type type);  // bytes
const char* name_of(Kind kind);
const char* name_of(Type type);

// What a call is for. The words are literals; numbers below 0 are not said.
struct Label {
  const char* what = "";   // "gather weights"
  int64_t segment = -1;    // of the model
  const char* phase = "";  // "forward", "backward", "step"
  int64_t micro_batch = -1;

  bool operator==(const Label&) const = default;
};

std::string to_string(const Label& label);  // "gather weights, segment 7, backward, micro-batch 2"

struct Call {
  Kind kind = Kind::barrier;
  Type type = Type::uint8;
  // Elements: of the whole buffer for all_reduce, broadcast, send and receive; of one member's block for the others.
  int64_t count = 0;
  const void* from = nullptr;
  void* to = nullptr;
  int64_t peer = -1;  // member number: root of a broadcast, other end of a send or receive
  Label label = {};
  // From 1: of the group's collectives, so that it is the same on all members, or of this member's sends and receives.
  uint64_t sequence = 0;
  bool limited = true;  // whether it may wait for others no longer than the world's time-out
};

// Bytes of payload that a member hands to others in a call, as docs/cost_model.md counts them, n members and b bytes of
// the whole buffer: all_reduce 2 b (n-1)/n, reduce_scatter, all_gather and all_to_all b (n-1)/n, broadcast b at the
// root and 0 elsewhere, send b, receive and barrier 0. Rounded down.
int64_t sent_bytes(const Call& call, int64_t members, int64_t member);

}  // namespace terrace::comm
