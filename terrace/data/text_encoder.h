// Encoding at a multiple of SentencePiece's rate: text is cut into words where no piece crosses, and the ids of words
// met before are remembered.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "terrace/data/tokenizer.h"

namespace terrace::data {

// What could not be encoded the plain way.
struct EncodeCounts {
  uint64_t invalid_bytes = 0;   // outside of UTF-8: written as byte pieces
  uint64_t space_marks = 0;     // U+2581, SentencePiece's own mark for a space: written as byte pieces
  uint64_t unknown_tokens = 0;  // lost: only with a model without byte pieces

  EncodeCounts& operator+=(const EncodeCounts& other);
  bool operator==(const EncodeCounts&) const = default;
};

// One per thread; the tokenizer must outlive it. Ids are those of SentencePiece for the whole text wherever the model
// keeps words apart (a model of type unigram may break ties between equal scores differently).
class TextEncoder {
 public:
  explicit TextEncoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Appends the ids of `text`. A text given in parts is cut by Tokenizer::cut; only its first part starts the text.
  void encode(std::string_view text, bool starts_text, std::vector<int32_t>& ids);

  const EncodeCounts& counts() const { return counts_; }

 private:
  // A word met before; one with size 0 is none. Two words of one slot replace each other.
  struct Word {
    uint8_t size = 0, num_ids = 0;
    std::array<char, 30> text;
    std::array<int32_t, 12> ids;
  };
  static constexpr size_t slots = size_t{1} << 16;  // 5 MiB

  void encode_plain(std::string_view text, bool starts_text, std::vector<int32_t>& ids);
  size_t word_length(std::string_view text) const;
  const Word* find(std::string_view text) const;
  void encode_run(std::string_view run, bool starts_text, std::vector<int32_t>& ids);
  void remember(std::string_view run, std::span<const int32_t> ids);
  void encode_segment(std::string_view segment, bool starts_text, std::vector<int32_t>& ids);
  void append_pieces(std::string_view text, std::vector<int32_t>& ids);
  size_t append_escaped(std::string_view text, std::vector<int32_t>& ids);

  const Tokenizer& tokenizer_;
  EncodeCounts counts_;
  std::vector<Word> words_ = std::vector<Word>(slots);
  std::vector<int> pieces_;
};

}  // namespace terrace::data
