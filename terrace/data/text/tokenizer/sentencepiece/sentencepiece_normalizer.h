// Normalises text as a SentencePiece model does before it looks for pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "terrace/data/text/tokenizer/byte_pair/character_pairs.h"
#include "terrace/data/text/tokenizer/sentencepiece/character_map.h"
#include "terrace/data/text/tokenizer/sentencepiece/sentencepiece_model.h"

namespace terrace::data {

// Gives what SentencePiece's Normalizer gives, also for a text that comes in parts. Safe to share between threads.
class SentencePieceNormalizer {
 public:
  SentencePieceNormalizer() = default;
  SentencePieceNormalizer(const SentencePieceModel& model, const std::string& name);

  // Appends the normalised text. `starts` and `ends` say whether the part is the first and the last of its text; parts
  // must meet at a seam(). A byte outside of UTF-8 becomes U+FFFD.
  void normalize(std::string_view text, bool starts, bool ends, std::string& to) const;

  // Returns whether valid text is changed in another way than by the dummy prefix and the marks of its spaces.
  bool changes_text() const { return !map_.empty() || removes_spaces_; }

  // Returns the last character of the normalised text before `at` and the first one behind it, if the parts that meet
  // there are normalised to the parts of the whole. `text` is valid around `at`, which is inside it and between
  // characters.
  struct Seam {
    uint32_t left = 0, right = 0;
  };
  std::optional<Seam> seam(std::string_view text, size_t at) const;

 private:
  struct Step {
    std::string_view becomes = {};
    size_t length = 0;
  };
  Step step(std::string_view text) const;
  size_t symbol_length(std::string_view text) const;
  std::optional<std::string> alone(std::string_view character) const;

  CharacterMap map_;
  // User-defined symbols, which are kept as they are, by their first byte, the longest first.
  std::vector<std::vector<std::string>> symbols_ = std::vector<std::vector<std::string>>(256);
  CharacterPairs changed_together_;  // neighbours within a key of the map or a symbol
  bool has_rules_ = false;           // there is a key or a symbol
  bool dummy_ = false, dummy_is_suffix_ = false, removes_spaces_ = false;
  std::string_view space_ = space_mark;
};

}  // namespace terrace::data
