// The table by which a SentencePiece model replaces strings of characters, such as those of NFKC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace terrace::data {

// The format of NormalizerSpec.precompiled_charsmap: the size of a double-array trie in 4 bytes, the trie's 32-bit
// units as darts-clone has them, and the replacements, each ended by a zero byte; all little-endian. An empty table
// replaces nothing.
class CharacterMap {
 public:
  CharacterMap() = default;
  // Throws UserError that starts with `name` where the table is damaged.
  CharacterMap(std::string_view charsmap, const std::string& name);

  bool empty() const { return units_.empty(); }

  struct Replacement {
    size_t length = 0;  // bytes of the text that are replaced; 0: none
    std::string_view with = {};
  };
  // Returns the replacement of the longest key that `text` starts with.
  Replacement longest(std::string_view text) const;

  // Calls take(key) for every key.
  void for_each_key(const std::function<void(std::string_view)>& take) const;

 private:
  uint32_t unit(uint32_t at) const { return at < units_.size() ? units_[at] : 0; }

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace terrace::data
