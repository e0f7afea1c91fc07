// Encodes faster than SentencePiece: text is split into words at points that no piece crosses, and the ids of words are
// cached.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "terrace/data/text/tokenizer/sentencepiece_tokenizer.h"
#include "terrace/data/text/tokenizer/text_encoder.h"
#include "terrace/data/text/tokenizer/word_cache.h"

namespace terrace::data {

// The ids equal those of SentencePiece for the whole text if no piece of the model crosses words (except that a unigram
// model may break ties between equal scores differently).
class SentencePieceEncoder : public TextEncoder {
 public:
  explicit SentencePieceEncoder(const SentencePieceTokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void encode(std::string_view text, bool starts_text, std::vector<int32_t>& ids) override;

 private:
  void encode_plain(std::string_view text, bool starts_text, std::vector<int32_t>& ids);
  size_t word_length(std::string_view text) const;
  void encode_run(std::string_view run, bool starts_text, std::vector<int32_t>& ids);
  void remember(std::string_view run, std::span<const int32_t> ids);
  void encode_segment(std::string_view segment, bool starts_text, std::vector<int32_t>& ids);
  void append_pieces(std::string_view text, std::vector<int32_t>& ids);
  size_t append_escaped(std::string_view text, std::vector<int32_t>& ids);

  const SentencePieceTokenizer& tokenizer_;
  WordCache words_;
  std::vector<int> pieces_;
};

}  // namespace terrace::data
