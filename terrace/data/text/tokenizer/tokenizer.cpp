// Opens either kind of tokenizer, and implements what both share.
#include "terrace/data/text/tokenizer/tokenizer.h"

#include <algorithm>
#include <charconv>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/text/plural.h"
#include "terrace/base/text/shell_word.h"
#include "terrace/data/text/tokenizer/byte_pair/byte_pair_tokenizer.h"
#include "terrace/data/text/tokenizer/sentencepiece/sentencepiece_tokenizer.h"
#include "terrace/data/text/tokenizer/text_encoder.h"

namespace terrace::data {

std::unique_ptr<const Tokenizer> Tokenizer::open(const std::filesystem::path& path) {
  return from_bytes(read_text(path), path.string());
}

std::unique_ptr<const Tokenizer> Tokenizer::from_bytes(std::string bytes, const std::string& name) {
  if (holds_json(bytes)) return std::make_unique<BytePairTokenizer>(parse_tokenizer_json(bytes, name), name);
  return std::make_unique<SentencePieceTokenizer>(SentencePieceTokenizer::from_model(std::move(bytes), name));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, SpecialTokens special) const {
  std::vector<int32_t> ids;
  make_encoder(special)->encode(text, true, true, ids);
  return ids;
}

int32_t Tokenizer::token_named(std::string_view option, const std::string& word) const {
  if (end_token_ >= 0 && word == end_token_name_) return end_token_;
  if (!word.empty() && word.find_first_not_of("0123456789") == std::string::npos) {
    int64_t number = -1;
    std::from_chars(word.data(), word.data() + word.size(), number);
    if (number >= 0 && number < vocabulary()) return static_cast<int32_t>(number);
    throw UserError::of("{} {}: the tokenizer has tokens 0 to {}", option, word, vocabulary() - 1);
  }
  const std::vector<int32_t> tokens = encode(word, SpecialTokens::keep);
  if (tokens.size() == 1) return tokens.front();
  const auto same = std::find(texts_.begin(), texts_.end(), word);
  if (!word.empty() && same != texts_.end()) return static_cast<int32_t>(same - texts_.begin());
  throw UserError::of("{} {} is {} of this tokenizer; give the text or the number of one token", option,
                      shell_word(word), counted(static_cast<int64_t>(tokens.size()), "token"));
}

std::string_view Tokenizer::text_of(int32_t id) const {
  TERRACE_CHECK(id >= 0 && id < vocabulary(), "token {} of a vocabulary of {}", id, vocabulary());
  return texts_[static_cast<size_t>(id)];
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (int32_t id : ids) text += text_of(id);
  return text;
}

}  // namespace terrace::data
