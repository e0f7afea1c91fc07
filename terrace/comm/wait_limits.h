// Limits of how long the ranks wait and of how much they report when a call does not complete; the same for threads and
// processes.
#pragma once

#include <chrono>
#include <cstdint>

namespace terrace::comm {

inline constexpr auto unwinding_time = std::chrono::seconds(5);  // from an exception to where its reason is known
inline constexpr auto answer_time =
    std::chrono::seconds(2);                         // for answers, and for a call whose peer has already ended
inline constexpr double log_interval_seconds = 600;  // between log lines about one wait, at most
inline constexpr int64_t most_named = 8;             // missing ranks in a message, at most

}  // namespace terrace::comm
