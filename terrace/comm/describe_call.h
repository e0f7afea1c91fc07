// Describes a call with its number and type of elements, for messages about calls that disagree.
#pragma once

#include <string>

#include "terrace/comm/call.h"
#include "terrace/mesh/group.h"

namespace terrace::comm {

std::string with_contents(const mesh::Group& group, const Call& call);  // "all_reduce(data), call 7 of 100 fp32"

}  // namespace terrace::comm
