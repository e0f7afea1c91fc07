// Parameters of small spaces.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "terrace/search/study/parameter.h"

namespace terrace::search {

inline Parameter integers(const std::string& name, double low, double high, std::vector<Condition> when = {}) {
  return {.name = name, .type = Parameter::Type::integer, .low = low, .high = high, .when = std::move(when)};
}
inline Parameter words(const std::string& name, std::vector<Value> values, std::vector<Condition> when = {}) {
  return {.name = name, .type = Parameter::Type::categorical, .values = std::move(values), .when = std::move(when)};
}

}  // namespace terrace::search
