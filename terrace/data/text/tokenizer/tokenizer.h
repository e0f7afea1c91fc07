// Maps bytes to token ids and back without loss, by a SentencePiece model or a byte-level BPE.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/data/text/tokenizer/special_tokens.h"

namespace terrace::data {

class TextEncoder;

// Immutable and safe to share between threads. With a byte-level BPE, and with a SentencePiece model that has byte
// pieces, decode(encode(x)) == x for every string of bytes, unless the tokenizer normalises (changes_text()) or the
// string holds U+2581, which SentencePiece takes for a space.
class Tokenizer {
 public:
  // Opens a SentencePiece model or a tokenizer.json; the first byte decides which it is. Throws UserError that names
  // the file and the problem.
  static std::unique_ptr<const Tokenizer> open(const std::filesystem::path& path);
  // Opens the bytes of such a file; `name` stands for the file in error messages. Throws as open() does.
  static std::unique_ptr<const Tokenizer> from_bytes(std::string bytes, const std::string& name);
  virtual ~Tokenizer() = default;

  // Returns the ids of any bytes. No end token is added.
  std::vector<int32_t> encode(std::string_view text, SpecialTokens special = SpecialTokens::split) const;
  // Returns the exact bytes. Control tokens, the end token among them, are empty. Every id must be below vocabulary().
  virtual std::string decode(std::span<const int32_t> ids) const;

  // Returns the bytes of one token, for showing text while it is generated. Unlike decode() this keeps the space that a
  // model with a dummy prefix puts before the first word.
  std::string_view text_of(int32_t id) const;

  int64_t vocabulary() const { return static_cast<int64_t>(texts_.size()); }
  int32_t end_token() const { return end_token_; }                       // closes a document; -1 where there is none
  const std::string& end_token_name() const { return end_token_name_; }  // "</s>"; "" where there is none
  virtual bool has_bytes() const = 0;                                    // every byte has a token of its own
  virtual bool changes_text() const = 0;                                 // normalises, or drops a part of the text
  const std::vector<std::string>& special_names() const { return special_names_; }  // of all control tokens

  // Returns the token that a user names by its number or its text. Throws UserError, which starts with `option`, where
  // that is not one token.
  int32_t token_named(std::string_view option, const std::string& word) const;

  // Returns an encoder for one thread; this tokenizer must outlive it.
  virtual std::unique_ptr<TextEncoder> make_encoder(SpecialTokens special = SpecialTokens::split) const = 0;

  // Returns the largest position in (0, text.size()] at which text that continues can be split so that its parts encode
  // to the ids of the whole. If there is none, the position is at the end of a character.
  virtual size_t cut(std::string_view text) const = 0;

 protected:
  Tokenizer() = default;
  Tokenizer(Tokenizer&&) = default;
  Tokenizer& operator=(Tokenizer&&) = default;

  std::vector<std::string> texts_;  // by id
  int32_t end_token_ = -1;
  std::string end_token_name_;
  std::vector<std::string> special_names_;
};

// Returns whether a tokenizer's file is a tokenizer.json.
bool holds_json(std::string_view bytes);

// Returns the name that a tokenizer's file has beside a model: "tokenizer.json" or "tokenizer.model".
const char* tokenizer_file_name(std::string_view bytes);

}  // namespace terrace::data
