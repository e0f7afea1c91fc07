// Walks over the characters of UTF-8.
#include "terrace/base/text/printable.h"

#include <fmt/format.h>

#include <cstdint>

namespace terrace {
namespace {

// The character that the text begins with; size 0 where its first byte begins no valid one.
struct Character {
  uint32_t code = 0;
  size_t size = 0;
};

Character first_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || size > text.size()) return {};
  uint32_t code = first & (0x7FU >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return {};
    code = (code << 6) | (byte(i) & 0x3FU);
  }
  // Longer than needed, a half of a pair of UTF-16, or beyond Unicode.
  const bool is_short = code < (size == 3 ? 0x800U : size == 4 ? 0x10000U : 0x80U);
  if (is_short || (code >= 0xD800 && code < 0xE000) || code > 0x10FFFF) return {};
  return {code, size};
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const Character one = first_character(text);
    if (one.size == 0) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    } else if (one.code == '\t' || one.code == '\r') {
      shown += one.code == '\t' ? "\\t" : "\\r";
    } else if ((one.code < 0x20 && one.code != '\n') || one.code == 0x7F) {
      shown += fmt::format("\\x{:02x}", one.code);
    } else if (one.code >= 0x80 && one.code < 0xA0) {
      shown += fmt::format("\\u{:04x}", one.code);
    } else {
      shown += text.substr(0, one.size);
    }
    text.remove_prefix(one.size == 0 ? 1 : one.size);
  }
  return shown;
}

}  // namespace terrace
