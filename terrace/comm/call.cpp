// Names, sizes and counted bytes of calls.
#include "terrace/comm/call.h"

#include <fmt/format.h>

#include "terrace/base/error.h"

namespace terrace::comm {

int64_t size_of(Type type) {
  switch (type) {
    case Type::fp64:
    case Type::int64:
      return 8;
    case Type::fp32:
    case Type::int32:
      return 4;
    case Type::bf16:
    case Type::fp16:
      return 2;
    case Type::uint8:
      return 1;
  }
  TERRACE_CHECK(false, "type {}", static_cast<int>(type));
}

const char* name_of(Kind kind) {
  static constexpr const char* names[num_kinds] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all",
                                                   "broadcast",  "send",           "receive",    "barrier"};
  return names[static_cast<int>(kind)];
}

const char* name_of(Type type) {
  static constexpr const char* names[] = {"fp64", "fp32", "bf16", "fp16", "int64", "int32", "uint8"};
  return names[static_cast<int>(type)];
}

std::string to_string(const Label& label) {
  std::string words;
  const auto say = [&](const std::string& word) { words += (words.empty() ? "" : ", ") + word; };
  if (*label.what != '\0') say(label.what);
  if (label.segment >= 0) say(fmt::format("segment {}", label.segment));
  if (*label.phase != '\0') say(label.phase);
  if (label.micro_batch >= 0) say(fmt::format("micro-batch {}", label.micro_batch));
  return words;
}

int64_t sent_bytes(const Call& call, int64_t members, int64_t member) {
  const int64_t bytes = call.count * size_of(call.type);  // of the whole buffer, or of one block
  switch (call.kind) {
    case Kind::all_reduce:
      return 2 * bytes * (members - 1) / members;
    case Kind::reduce_scatter:
    case Kind::all_gather:
    case Kind::all_to_all:
      return bytes * (members - 1);
    case Kind::broadcast:
      return members > 1 && member == call.peer ? bytes : 0;
    case Kind::send:
      return bytes;
    case Kind::receive:
    case Kind::barrier:
      return 0;
  }
  TERRACE_CHECK(false, "kind {}", static_cast<int>(call.kind));
}

}  // namespace terrace::comm
