// Encodes faster than SentencePiece: normalised text is split into words at points that no piece crosses, and the ids
// of words are cached.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/data/text/tokenizer/byte_pair/word_cache.h"
#include "terrace/data/text/tokenizer/sentencepiece/sentencepiece_tokenizer.h"
#include "terrace/data/text/tokenizer/text_encoder.h"

namespace terrace::data {

// The ids equal those of SentencePiece for the whole text. Merges of a BPE model never reach across a point that no
// piece crosses, so its words are independent; those without such a point, and the texts of word and character models,
// are encoded whole up to `longest_segment` bytes. UnigramPieces spells texts of unigram models from their beginning;
// for a part that does not start its text the sum of the scores before is unknown, and paths whose scores are equal may
// be chosen otherwise.
class SentencePieceEncoder : public TextEncoder {
 public:
  explicit SentencePieceEncoder(const SentencePieceTokenizer& tokenizer, SpecialTokens special = SpecialTokens::split)
      : tokenizer_(tokenizer), special_(special) {}

  static constexpr size_t longest_segment = size_t{1} << 20;

  void encode(std::string_view text, bool starts_text, bool ends_text, std::vector<int32_t>& ids) override;

 private:
  void encode_section(std::string_view text, bool starts, bool ends, std::vector<int32_t>& ids);
  void encode_normalized(std::string_view text, std::vector<int32_t>& ids);
  void encode_by_words(std::string_view text, std::vector<int32_t>& ids);
  void encode_unigram(std::string_view text, std::vector<int32_t>& ids);
  size_t word_length(std::string_view text) const;
  void encode_run(std::string_view run, std::vector<int32_t>& ids);
  void remember(std::string_view run, std::span<const int32_t> ids);
  void count_marks(std::string_view text);

  const SentencePieceTokenizer& tokenizer_;
  SpecialTokens special_;
  WordCache words_;
  std::string normalized_;
  std::vector<int> pieces_;
};

}  // namespace terrace::data
