// Finds the known word nearest to a misspelled one, for error messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace terrace {

// The candidate with the smallest edit distance, or "" where none is within half of the word's length (at least 2).
std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace terrace
