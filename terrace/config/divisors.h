// Finds valid sizes near one that does not divide a number, for messages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace terrace::config {

// All divisors of the number that are at most `most`, in order.
std::vector<int64_t> divisors_up_to(int64_t number, int64_t most);

// All divisors of the number if there are at most 8, otherwise the nearest two on each side of the value.
std::vector<int64_t> divisors_near(int64_t number, int64_t value);

// "1, 2, 4 or 8".
std::string listed(const std::vector<int64_t>& numbers);

// The multiples of `every` on both sides of a number, the lower one only if it is not 0: "32 or 64".
std::string multiples_around(int64_t number, int64_t every);

}  // namespace terrace::config
