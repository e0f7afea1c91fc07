// The marks of encodings at the beginning of a file.
#pragma once

#include <string_view>

namespace terrace {

inline constexpr std::string_view utf8_mark = "\xEF\xBB\xBF";

inline bool has_utf16_mark(std::string_view bytes) {
  return bytes.starts_with("\xFF\xFE") || bytes.starts_with("\xFE\xFF");
}

}  // namespace terrace
