// The tokenizer of a SentencePiece model.
#pragma once

#include "terrace/data/text/tokenizer/byte_pair/character_pairs.h"
#include "terrace/data/text/tokenizer/sentencepiece/sentencepiece_model.h"
#include "terrace/data/text/tokenizer/sentencepiece/sentencepiece_normalizer.h"
#include "terrace/data/text/tokenizer/sentencepiece/unigram_pieces.h"
#include "terrace/data/text/tokenizer/token_matcher.h"
#include "terrace/data/text/tokenizer/tokenizer.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace terrace::data {

// Valid UTF-8 has the ids that SentencePiece gives for the whole text (SentencePieceEncoder says how, and where a text
// is too long for it). With byte pieces, bytes outside of UTF-8 become these, where SentencePiece has U+FFFD.
class SentencePieceTokenizer : public Tokenizer {
 public:
  // Takes the content of a model's file; `name` is for error messages. Throws UserError where it is not a model.
  static SentencePieceTokenizer from_model(std::string model, const std::string& name);
  SentencePieceTokenizer(SentencePieceTokenizer&&) noexcept;
  ~SentencePieceTokenizer() override;

  // Decodes without the dummy prefix.
  std::string decode(std::span<const int32_t> ids) const override;
  bool has_bytes() const override { return !byte_ids_.empty(); }
  bool changes_text() const override { return normalizer_.changes_text(); }
  std::unique_ptr<TextEncoder> make_encoder(SpecialTokens special) const override;
  size_t cut(std::string_view text) const override;

  int32_t unknown_token() const { return unknown_token_; }  // replaces characters that cannot be encoded
  const std::string& model() const { return model_; }       // the file's content

 private:
  friend class SentencePieceEncoder;
  SentencePieceTokenizer();
  void read_pieces(const SentencePieceModel& model);
  bool keeps_apart(uint32_t left, uint32_t right) const;

  std::string model_;
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;  // for normalised text
  SentencePieceNormalizer normalizer_;
  UnigramPieces unigram_;              // of a unigram model
  TokenMatcher control_;               // the texts of control tokens, and of tokens that were added to the model
  bool restarts_ = true;               // SentencePieceModel::restarts
  std::vector<int32_t> byte_ids_;      // 256 ids or none
  std::vector<uint32_t> piece_bytes_;  // by id: bytes of the normalised text that a piece stands for
  int32_t unknown_token_ = 0;
  SentencePieceModel::Algorithm algorithm_ = SentencePieceModel::Algorithm::unigram;
  CharacterPairs joined_;  // neighbours within a piece
  CharacterPairs known_;   // each character that is a piece of its own, beside itself
  bool dummy_prefix_ = false, dummy_suffix_ = false;
};

}  // namespace terrace::data
