// Trains a SentencePiece model on an even sample of the input.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/data/input_files.h"
#include "terrace/data/text/text_blocks.h"

namespace terrace::data {

struct TokenizerTraining {
  int64_t vocabulary = 32'000;
  uint64_t sample_bytes = 16 << 20;  // of text held and trained on
};

// An even sample of pieces of text of a bounded size. Each piece draws a number from the counter-based generator, and
// only pieces with numbers below a bound are kept. The bound is halved when the sample gets too large.
class TextSample {
 public:
  explicit TextSample(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  // Splits text at newlines, which are pieces of their own, and about every 2 KiB at a space.
  void add(std::string_view text);
  const std::vector<std::string>& pieces() const { return pieces_; }
  uint64_t bytes() const { return bytes_; }  // of the pieces

 private:
  void add_piece(std::string_view piece);

  uint64_t limit_bytes_, bytes_ = 0, drawn_ = 0;
  uint64_t bound_ = uint64_t{1} << 32;  // of the numbers drawn, 32 bits
  std::vector<std::string> pieces_;
  std::vector<uint32_t> numbers_;
};

// Returns the model as the content of its file: BPE, byte fallback, no normalisation, no dummy prefix, digits apart,
// and a newline never in a piece with anything else. Of each file at most its share of 8 * sample_bytes is read. Throws
// UserError where the text is too little for the vocabulary. The same input gives the same model.
std::string train_tokenizer(const std::vector<InputFile>& files, const BlockRules& rules,
                            const TokenizerTraining& training);

}  // namespace terrace::data
