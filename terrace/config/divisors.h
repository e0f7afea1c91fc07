// Valid sizes in the neighbourhood of one that does not divide, for messages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace terrace::config {

// All divisors of the number where they are few, else the nearest ones on both sides of the value.
std::vector<int64_t> divisors_near(int64_t number, int64_t value);

// "1, 2, 4 or 8".
std::string listed(const std::vector<int64_t>& numbers);

}  // namespace terrace::config
