// Walks the double-array trie of a SentencePiece normaliser.
#include "terrace/data/text/tokenizer/sentencepiece/character_map.h"

#include <cstring>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/data/text/tokenizer/utf8.h"

namespace terrace::data {
namespace {

// The parts of a darts-clone unit (DoubleArrayUnit).
bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t value_of(uint32_t unit) { return unit & 0x7FFFFFFF; }
uint32_t label_of(uint32_t unit) { return unit & (0x80000000U | 0xFF); }
uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & (1U << 9)) >> 6); }

}  // namespace

CharacterMap::CharacterMap(std::string_view charsmap, const std::string& name) {
  if (charsmap.empty()) return;
  const auto word = [&](size_t at) {
    uint32_t value = 0;
    for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<uint8_t>(charsmap[at + i]);
    return value;
  };
  const size_t trie_bytes = charsmap.size() < 4 ? 0 : word(0);
  if (trie_bytes < 4 || trie_bytes % 4 != 0 || trie_bytes > charsmap.size() - 4) {
    throw UserError::of("{}: the normaliser's table of {} bytes is damaged", name, charsmap.size());
  }
  units_.resize(trie_bytes / 4);
  for (size_t i = 0; i < units_.size(); ++i) units_[i] = word(4 + 4 * i);
  replacements_ = charsmap.substr(4 + trie_bytes);
}

CharacterMap::Replacement CharacterMap::longest(std::string_view text) const {
  Replacement found;
  if (units_.empty()) return found;
  uint32_t at = offset_of(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const uint32_t byte = static_cast<uint8_t>(text[i]);
    at ^= byte;
    const uint32_t here = unit(at);
    if (byte == 0 || label_of(here) != byte) break;
    at ^= offset_of(here);
    if (!has_leaf(here)) continue;
    const size_t begin = value_of(unit(at));
    if (begin > replacements_.size()) break;
    const std::string_view with = replacements_.c_str() + begin;
    if (valid_length(with) != with.size()) break;  // of a damaged table
    found = {.length = i + 1, .with = with};
  }
  return found;
}

void CharacterMap::for_each_key(const std::function<void(std::string_view)>& take) const {
  if (units_.empty()) return;
  size_t left = units_.size();  // nodes of a tree; those of a damaged table may lead back
  std::vector<std::pair<uint32_t, std::string>> open{{offset_of(units_[0]), ""}};
  while (!open.empty()) {
    const auto [from, key] = std::move(open.back());
    open.pop_back();
    for (uint32_t byte = 1; byte < 256; ++byte) {
      const uint32_t here = unit(from ^ byte);
      if (label_of(here) != byte) continue;
      const std::string longer = key + static_cast<char>(byte);
      if (has_leaf(here)) take(longer);
      if (left-- == 0) return;
      open.emplace_back(from ^ byte ^ offset_of(here), longer);
    }
  }
}

}  // namespace terrace::data
