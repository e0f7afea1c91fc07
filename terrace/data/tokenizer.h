// A SentencePiece model that maps bytes to token ids and back without losing any.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace terrace::data {

// Immutable and safe to share between threads. With a model that has byte pieces and does not normalise, such as
// `terrace data prepare --train-tokenizer` makes, decode(encode(x)) == x for every string of bytes.
class Tokenizer {
 public:
  // Throws UserError naming the file and what is wrong with it.
  static Tokenizer open(const std::filesystem::path& path);
  // A model held in memory; `name` is for error messages.
  static Tokenizer from_model(std::string model, const std::string& name);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Ids of any bytes. No end token is added.
  std::vector<int32_t> encode(std::string_view text) const;
  // The exact bytes. Control tokens, the end token among them, are empty. Every id must be below vocabulary().
  std::string decode(std::span<const int32_t> ids) const;

  // The bytes of one token, as for showing text while it is generated: a space stays where decode() would drop the one
  // that a model with a dummy prefix puts before the first word.
  std::string_view text_of(int32_t id) const;

  int64_t vocabulary() const { return static_cast<int64_t>(texts_.size()); }
  int32_t end_token() const { return end_token_; }          // closes a document; -1 where the model has none
  int32_t unknown_token() const { return unknown_token_; }  // stands for what cannot be kept
  bool has_bytes() const { return !byte_ids_.empty(); }     // every byte has a piece of its own
  const std::string& model() const { return model_; }       // the file's content

  // The largest position in (0, text.size()] at which text that goes on may be cut, encoded in parts and still give the
  // ids of the whole; where there is none, at a character's end.
  size_t cut(std::string_view text) const;

 private:
  friend class TextEncoder;
  Tokenizer();
  void read_pieces();
  void find_word_rules();
  void find_dummy_prefix(const std::string& name);
  bool starts_word(std::string_view text, size_t at) const;

  std::string model_;
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
  std::vector<std::string> texts_;  // by id
  std::vector<int32_t> byte_ids_;   // 256 ids or none
  int32_t end_token_ = -1;
  int32_t unknown_token_ = 0;
  bool spaces_start_words_ = true;    // no piece goes on past a space that follows another character
  bool newlines_stand_alone_ = true;  // no piece joins a newline with anything else
  bool dummy_prefix_ = false;         // the model puts a space before every text
  // A character that is in no piece, and its ids with the dummy prefix: put before a part of a text, they keep the
  // dummy prefix away from it.
  std::string guard_;
  std::vector<int32_t> guard_ids_;
};

}  // namespace terrace::data
