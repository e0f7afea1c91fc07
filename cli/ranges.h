// Limits the numbers that flags take; without a limit CLI11 would read -1 as the largest unsigned number.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>

namespace terrace::cli {

constexpr int64_t largest_number = std::numeric_limits<int64_t>::max();

inline CLI::Range positive() { return {int64_t{1}, largest_number, "POSITIVE"}; }
inline CLI::Range not_negative() { return {int64_t{0}, largest_number, "NONNEGATIVE"}; }
inline CLI::Range thread_count() { return {0, 4096}; }  // 0: one per core

}  // namespace terrace::cli
