// Reads large numbers of tokens as people write them.
#pragma once

#include <string>

namespace terrace::cli {

// "300B" is 3e11: a number with nothing or K, M, B (or G) or T behind it. Throws UserError, which names the flag, for
// anything else and outside of 1 to 1e16.
double item_count_of(const std::string& flag, const std::string& text);

}  // namespace terrace::cli
