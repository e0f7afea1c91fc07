// Opens either kind of tokenizer, and implements what both share.
#include "terrace/data/text/tokenizer/tokenizer.h"

#include "terrace/base/error.h"
#include "terrace/base/file.h"
#include "terrace/data/text/tokenizer/byte_pair_tokenizer.h"
#include "terrace/data/text/tokenizer/sentencepiece_tokenizer.h"
#include "terrace/data/text/tokenizer/text_encoder.h"

namespace terrace::data {

std::unique_ptr<const Tokenizer> Tokenizer::open(const std::filesystem::path& path) {
  return from_bytes(read_text(path), path.string());
}

std::unique_ptr<const Tokenizer> Tokenizer::from_bytes(std::string bytes, const std::string& name) {
  if (holds_json(bytes)) return std::make_unique<BytePairTokenizer>(parse_tokenizer_json(bytes, name), name);
  return std::make_unique<SentencePieceTokenizer>(SentencePieceTokenizer::from_model(std::move(bytes), name));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  make_encoder()->encode(text, true, ids);
  return ids;
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
