// Numbers of things in words: "1 thread", "2 threads".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace terrace {

// "thread" or "threads"; `several` where the plural has more than an s: "batches".
std::string_view plural(uint64_t count, std::string_view one, std::string_view several);
std::string plural(uint64_t count, std::string_view one);

// "sequence" of "sequences", for plurals that have only an s more.
std::string singular(const std::string& several);

// The number with its word, and commas as format_count() puts them: "1 thread", "2,000 threads".
std::string counted(uint64_t count, std::string_view one);
std::string counted(uint64_t count, std::string_view one, std::string_view several);

}  // namespace terrace
