// Texts that are compared whatever their capitals.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace terrace {

// The letters of ASCII become small; others stay.
inline std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return lower;
}

}  // namespace terrace
