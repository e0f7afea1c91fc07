// One call of a communication operation as plain data, which backends start and the flight recorder keeps.
#pragma once

#include <cstdint>
#include <string>

namespace terrace::comm {

enum class Kind { all_reduce, reduce_scatter, all_gather, all_to_all, broadcast, send, receive, barrier };
inline constexpr int num_kinds = 8;

enum class Type { fp64, fp32, bf16, fp16, int64, int32, uint8 };

// The algorithm of an all_gather: the one that the backend's library chooses, or messages whose number of blocks
// doubles with each step (doubling.h).
enum class Gathering { library, doubling };

int64_t size_of(Type type);  // bytes
const char* name_of(Kind kind);
const char* name_of(Type type);

// The purpose of a call. The texts are string literals; numbers below 0 are left out of messages.
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
  // The number of elements of the whole buffer for all_reduce, broadcast, send and receive, of one block for the
  // others.
  int64_t count = 0;
  const void* from = nullptr;
  void* to = nullptr;
  int64_t peer = -1;  // member number of the root of a broadcast, or of the other side of a send or receive
  Label label = {};
  Gathering gathering = Gathering::library;
  // Counts from 1 the collectives of the group, with the same number on all members, or else this member's sends and
  // receives.
  uint64_t sequence = 0;
  bool limited = true;  // whether the world's time-out holds for the call
};

// The bytes that a member sends in a call, as docs/cost_model.md counts them, rounded down. With n members and b bytes
// of the whole buffer: all_reduce 2 b (n-1)/n, reduce_scatter, all_gather and all_to_all b (n-1)/n, broadcast b at the
// root and 0 elsewhere, send b, receive and barrier 0.
int64_t sent_bytes(const Call& call, int64_t members, int64_t member);

}  // namespace terrace::comm
