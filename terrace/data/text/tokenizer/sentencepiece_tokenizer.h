// The tokenizer of a SentencePiece model.
#pragma once

#include "terrace/data/text/tokenizer/tokenizer.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace terrace::data {

inline constexpr std::string_view space_mark = "\xE2\x96\x81";  // U+2581, which SentencePiece writes for a space

class SentencePieceTokenizer : public Tokenizer {
 public:
  // Takes the content of a model's file; `name` is for error messages. Throws UserError where it is not a model.
  static SentencePieceTokenizer from_model(std::string model, const std::string& name);
  SentencePieceTokenizer(SentencePieceTokenizer&&) noexcept;
  ~SentencePieceTokenizer() override;

  std::string decode(std::span<const int32_t> ids) const override;
  bool has_bytes() const override { return !byte_ids_.empty(); }
  std::unique_ptr<TextEncoder> make_encoder() const override;
  size_t cut(std::string_view text) const override;

  int32_t unknown_token() const { return unknown_token_; }  // replaces characters that cannot be encoded
  const std::string& model() const { return model_; }       // the file's content

 private:
  friend class SentencePieceEncoder;
  SentencePieceTokenizer();
  void read_pieces();
  void find_word_rules();
  void find_dummy_prefix(const std::string& name);
  bool starts_word(std::string_view text, size_t at) const;

  std::string model_;
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
  std::vector<int32_t> byte_ids_;  // 256 ids or none
  int32_t unknown_token_ = 0;
  bool spaces_start_words_ = true;    // no piece extends across a space that follows another character
  bool newlines_stand_alone_ = true;  // no piece joins a newline with anything else
  bool dummy_prefix_ = false;         // the model puts a space before every text
  // A character that is in no piece, and its ids with the dummy prefix. Placed before a part of a text, the character
  // takes the dummy prefix instead of the part.
  std::string guard_;
  std::vector<int32_t> guard_ids_;
};

}  // namespace terrace::data
