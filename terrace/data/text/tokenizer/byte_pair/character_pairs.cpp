// Collects pairs of neighbouring characters.
#include "terrace/data/text/tokenizer/byte_pair/character_pairs.h"

#include <algorithm>

#include "terrace/data/text/tokenizer/utf8.h"

namespace terrace::data {

uint32_t code_point(std::string_view text) {
  const auto byte = [&](size_t i) { return uint32_t{static_cast<uint8_t>(text[i])}; };
  if (byte(0) < 0x80) return byte(0);
  if (byte(0) < 0xE0) return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
  if (byte(0) < 0xF0) return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
  return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
}

void CharacterPairs::add(std::string_view text) {
  constexpr uint32_t none = UINT32_MAX;
  uint32_t before = none;
  while (!text.empty()) {
    const size_t length = character_length(text);
    const uint32_t here = length == 0 ? none : code_point(text);
    if (before != none && here != none) {
      const uint32_t first = narrow(before), second = narrow(here);
      if (first < num_narrow && second < num_narrow) {
        narrow_.set(size_t{first} * num_narrow + second);
      } else {
        wide_.insert((uint64_t{before} << 32) | here);
      }
    }
    before = here;
    text.remove_prefix(std::max<size_t>(1, length));
  }
}

}  // namespace terrace::data
