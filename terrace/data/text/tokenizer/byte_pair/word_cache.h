// The ids of words met before: a table of fixed size in which two words of one slot replace each other.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace terrace::data {

class WordCache {
 public:
  struct Word {
    uint8_t size = 0, num_ids = 0;  // size 0: none
    std::array<char, 30> text;
    std::array<int32_t, 12> ids;

    std::span<const int32_t> found() const { return {ids.data(), num_ids}; }
  };

  // Returns a word, which the next remember() may replace; null where the word is not here.
  const Word* find(std::string_view text) const {
    const Word& word = words_[std::hash<std::string_view>{}(text) % slots];
    return text == std::string_view(word.text.data(), word.size) ? &word : nullptr;
  }

  // A word that is too long or has too many ids is passed over.
  void remember(std::string_view text, std::span<const int32_t> ids) {
    Word& word = words_[std::hash<std::string_view>{}(text) % slots];
    if (text.size() > word.text.size() || ids.size() > word.ids.size()) return;
    word.size = static_cast<uint8_t>(text.size());
    word.num_ids = static_cast<uint8_t>(ids.size());
    std::copy(text.begin(), text.end(), word.text.begin());
    std::copy(ids.begin(), ids.end(), word.ids.begin());
  }

 private:
  static constexpr size_t slots = size_t{1} << 16;  // 5 MiB
  std::vector<Word> words_ = std::vector<Word>(slots);
};

}  // namespace terrace::data
