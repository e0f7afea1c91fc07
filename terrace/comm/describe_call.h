// A call with what it moves in words, for messages about calls that do not fit together.
#pragma once

#include <string>

#include "terrace/comm/call.h"
#include "terrace/mesh/group.h"

namespace terrace::comm {

std::string with_contents(const mesh::Group& group, const Call& call);  // "all_reduce(data), call 7 of 100 fp32"

}  // namespace terrace::comm
