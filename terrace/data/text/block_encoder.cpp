// Encodes the parts of documents in a block, and looks whether they decode to the same bytes.
#include "terrace/data/text/block_encoder.h"

namespace terrace::data {

EncodedBlock BlockEncoder::encode(const TextBlock& block) {
  EncodedBlock encoded{.file = block.file};
  const EncodeCounts before = encoder_->counts();
  encoded.malformed = for_each_text(
      block, rules_, [&](std::string_view text, bool starts, bool ends) { encode_part(text, starts, ends, encoded); });
  const EncodeCounts& after = encoder_->counts();
  encoded.counts = after - before;
  return encoded;
}

void BlockEncoder::encode_part(std::string_view text, bool starts, bool ends, EncodedBlock& encoded) {
  if (starts && ends && text.empty()) {
    ++encoded.empty_documents;
    return;
  }
  if (starts && document_.begin >= 0) encoded.tokens.push_back(document_.begin);
  const size_t first = encoded.tokens.size();
  encoder_->encode(text, starts, ends, encoded.tokens);
  encoded.text_bytes += text.size();
  if (!decodes_to(text, std::span(encoded.tokens).subspan(first), starts)) ++encoded.changed_parts;
  if (!ends) return;
  encoded.tokens.push_back(document_.end);
  encoded.ends.push_back(encoded.tokens.size());
}

// decode() drops the dummy prefix, which only a document's first part has.
bool BlockEncoder::decodes_to(std::string_view text, std::span<const int32_t> ids, bool starts) const {
  if (starts) return tokenizer_.decode(ids) == text;
  for (int32_t id : ids) {
    const std::string_view piece = tokenizer_.text_of(id);
    if (!text.starts_with(piece)) return false;
    text.remove_prefix(piece.size());
  }
  return text.empty();
}

}  // namespace terrace::data
