// Formats the description of a call.
#include "terrace/comm/describe_call.h"

#include <fmt/format.h>

#include "terrace/comm/flight_recorder.h"

namespace terrace::comm {

std::string with_contents(const mesh::Group& group, const Call& call) {
  std::string words = fmt::format("{} of {} {}", describe(group, call), call.count, name_of(call.type));
  if (call.kind == Kind::broadcast) words += fmt::format(" from member {}", call.peer);
  return words;
}

}  // namespace terrace::comm
