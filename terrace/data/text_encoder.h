// Encoding at a multiple of SentencePiece's rate: text is cut into words where no piece crosses, and the ids of words
// met before are remembered.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
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
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  struct Slice {
    uint32_t begin, size;
  };

  void encode_plain(std::string_view text, bool starts_text, std::vector<int32_t>& ids);
  void encode_word(std::string_view word, std::vector<int32_t>& ids);
  void encode_segment(std::string_view segment, bool starts_text, std::vector<int32_t>& ids);
  void append_pieces(std::string_view text, std::vector<int32_t>& ids);
  size_t append_escaped(std::string_view text, std::vector<int32_t>& ids);

  const Tokenizer& tokenizer_;
  EncodeCounts counts_;
  std::unordered_map<std::string, Slice, Hash, std::equal_to<>> words_;
  std::vector<int32_t> word_ids_;
  std::vector<int> pieces_;
};

}  // namespace terrace::data
