// Encodes text that comes in parts. Every kind of tokenizer makes one encoder for each thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace terrace::data {

// Counts of text that needed special handling.
struct EncodeCounts {
  uint64_t invalid_bytes = 0;   // outside of UTF-8: written as byte tokens
  uint64_t space_marks = 0;     // U+2581, SentencePiece's own mark for a space: written as byte pieces
  uint64_t unknown_tokens = 0;  // lost: only with a model without byte pieces

  EncodeCounts& operator+=(const EncodeCounts& other) {
    invalid_bytes += other.invalid_bytes;
    space_marks += other.space_marks;
    unknown_tokens += other.unknown_tokens;
    return *this;
  }
  bool operator==(const EncodeCounts&) const = default;
};

class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  // Appends the ids of `text`. A text is split into parts by Tokenizer::cut; only its first part starts the text.
  virtual void encode(std::string_view text, bool starts_text, std::vector<int32_t>& ids) = 0;

  const EncodeCounts& counts() const { return counts_; }

 protected:
  EncodeCounts counts_;
};

}  // namespace terrace::data
