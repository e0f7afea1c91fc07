// The name of the JSON type, for headers that only declare functions of it: the type itself takes long to compile.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace terrace {

// Keys keep the order they were written in.
using Json = nlohmann::ordered_json;

}  // namespace terrace
