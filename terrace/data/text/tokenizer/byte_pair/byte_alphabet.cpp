// Computes the table of GPT-2's byte alphabet.
#include "terrace/data/text/tokenizer/byte_pair/byte_alphabet.h"

#include <array>
#include <cstdint>

namespace terrace::data {
namespace {

constexpr uint32_t largest_character = 0x143;

bool stands_for_itself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<uint32_t, 256> character{};
  std::array<int16_t, largest_character + 1> byte{};

  Alphabet() {
    byte.fill(-1);
    uint32_t next = 0x100;
    for (uint32_t value = 0; value < 256; ++value) {
      character[value] = stands_for_itself(value) ? value : next++;
      byte[character[value]] = static_cast<int16_t>(value);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet table;
  return table;
}

}  // namespace

std::string spelled(std::string_view bytes) {
  std::string text;
  for (char byte : bytes) {
    const uint32_t character = alphabet().character[static_cast<uint8_t>(byte)];
    if (character < 0x80) {
      text += static_cast<char>(character);
    } else {
      text += static_cast<char>(0xC0 | (character >> 6));
      text += static_cast<char>(0x80 | (character & 0x3F));
    }
  }
  return text;
}

std::optional<std::string> unspelled(std::string_view spelling) {
  std::string bytes;
  for (size_t at = 0; at < spelling.size(); ++at) {
    uint32_t character = static_cast<uint8_t>(spelling[at]);
    if (character >= 0x80) {
      // The alphabet's other characters have two bytes each.
      if ((character & 0xE0) != 0xC0 || at + 1 == spelling.size()) return std::nullopt;
      character = ((character & 0x1F) << 6) | (static_cast<uint8_t>(spelling[++at]) & 0x3F);
    }
    if (character > largest_character || alphabet().byte[character] < 0) return std::nullopt;
    bytes += static_cast<char>(alphabet().byte[character]);
  }
  return bytes;
}

}  // namespace terrace::data
