// Tells which two characters stand side by side within any of a set of strings, such as the pieces of a vocabulary.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_set>

namespace terrace::data {

// Returns the code point of the valid character that `text` starts with.
uint32_t code_point(std::string_view text);

class CharacterPairs {
 public:
  // Adds the pairs of neighbours in a string. Bytes outside of UTF-8 are in no pair.
  void add(std::string_view text);

  bool contains(uint32_t left, uint32_t right) const {
    const uint32_t first = narrow(left), second = narrow(right);
    if (first < num_narrow && second < num_narrow) return narrow_[first * num_narrow + second];
    return wide_.contains((uint64_t{left} << 32) | right);
  }
  bool empty() const { return narrow_.none() && wide_.empty(); }

 private:
  static constexpr uint32_t num_narrow = 129;
  // ASCII and SentencePiece's mark for a space, most characters of most texts, have a table.
  static uint32_t narrow(uint32_t code) { return code < 128 ? code : (code == 0x2581 ? 128 : num_narrow); }

  std::bitset<size_t{num_narrow} * num_narrow> narrow_;
  std::unordered_set<uint64_t> wide_;
};

}  // namespace terrace::data
