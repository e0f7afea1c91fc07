// The JSON type of the program. Keys keep the order they were written in.
#pragma once

#include <nlohmann/json.hpp>

namespace terrace {

using Json = nlohmann::ordered_json;

}  // namespace terrace
