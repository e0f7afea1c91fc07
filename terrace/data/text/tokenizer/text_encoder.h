// Encodes text that comes in parts. Every kind of tokenizer makes one encoder for each thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace terrace::data {

// Counts of text that needed special handling.
struct EncodeCounts {
  uint64_t invalid_bytes = 0;   // outside of UTF-8: byte tokens, or U+FFFD where these have no token
  uint64_t replaced_bytes = 0;  // the invalid bytes that became U+FFFD
  uint64_t space_marks = 0;     // U+2581, which SentencePiece does not tell from a space
  uint64_t unknown_tokens = 0;  // lost: only with a model without byte pieces
  uint64_t special_texts = 0;   // texts of control tokens, kept as these or split into plain text

  EncodeCounts& operator+=(const EncodeCounts& other) {
    invalid_bytes += other.invalid_bytes;
    replaced_bytes += other.replaced_bytes;
    space_marks += other.space_marks;
    unknown_tokens += other.unknown_tokens;
    special_texts += other.special_texts;
    return *this;
  }
  EncodeCounts operator-(const EncodeCounts& other) const {
    return {.invalid_bytes = invalid_bytes - other.invalid_bytes,
            .replaced_bytes = replaced_bytes - other.replaced_bytes,
            .space_marks = space_marks - other.space_marks,
            .unknown_tokens = unknown_tokens - other.unknown_tokens,
            .special_texts = special_texts - other.special_texts};
  }
  bool operator==(const EncodeCounts&) const = default;
};

class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  // Appends the ids of `text`. A text is split into parts by Tokenizer::cut; only its first part starts the text, and
  // only its last one ends it.
  virtual void encode(std::string_view text, bool starts_text, bool ends_text, std::vector<int32_t>& ids) = 0;

  const EncodeCounts& counts() const { return counts_; }

 protected:
  EncodeCounts counts_;
};

}  // namespace terrace::data
