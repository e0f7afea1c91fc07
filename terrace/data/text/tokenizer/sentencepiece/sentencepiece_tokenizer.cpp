// Reads a SentencePiece model: the bytes of its pieces, and the positions at which text may be split.
#include "terrace/data/text/tokenizer/sentencepiece/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/data/text/tokenizer/sentencepiece/sentencepiece_encoder.h"
#include "terrace/data/text/tokenizer/utf8.h"

namespace terrace::data {
namespace {

using PieceType = SentencePieceModel::PieceType;

std::string replace_marks(std::string_view piece) {
  std::string text;
  for (size_t at = 0; at < piece.size();) {
    if (piece.substr(at, space_mark.size()) == space_mark) {
      text += ' ';
      at += space_mark.size();
    } else {
      text += piece[at++];
    }
  }
  return text;
}

// Returns whether a cut at `at` splits no character that bytes behind `text` may complete, nor one of the text's own.
bool is_between_characters(std::string_view text, size_t at) {
  return (static_cast<uint8_t>(text[at]) & 0xC0) != 0x80 && character_length(text.substr(at, 4)) > 0;
}

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer()
    : processor_(std::make_unique<sentencepiece::SentencePieceProcessor>()) {}
SentencePieceTokenizer::SentencePieceTokenizer(SentencePieceTokenizer&&) noexcept = default;
SentencePieceTokenizer::~SentencePieceTokenizer() = default;

SentencePieceTokenizer SentencePieceTokenizer::from_model(std::string model, const std::string& name) {
  SentencePieceTokenizer tokenizer;
  // The model is loaded as it is, with its self-test, and then as it encodes here.
  sentencepiece::SentencePieceProcessor whole;
  auto status = model.empty() ? sentencepiece::util::Status(sentencepiece::util::StatusCode::kDataLoss, "empty")
                              : whole.LoadFromSerializedProto(model);
  if (!status.ok()) throw UserError::of("{} is not a SentencePiece model: {}", name, status.ToString());
  const SentencePieceModel parsed = parse_sentencepiece_model(model, name);
  status = tokenizer.processor_->LoadFromSerializedProto(without_normalizer(model, name));
  if (!status.ok()) throw UserError::of("{} is not a SentencePiece model: {}", name, status.ToString());
  tokenizer.model_ = std::move(model);
  tokenizer.end_token_ = whole.eos_id();
  if (tokenizer.end_token_ >= 0) tokenizer.end_token_name_ = whole.IdToPiece(tokenizer.end_token_);
  tokenizer.unknown_token_ = whole.unk_id();
  tokenizer.normalizer_ = SentencePieceNormalizer(parsed, name);
  tokenizer.algorithm_ = parsed.algorithm;
  tokenizer.dummy_prefix_ = parsed.add_dummy_prefix && !parsed.whitespace_as_suffix;
  tokenizer.dummy_suffix_ = parsed.add_dummy_prefix && parsed.whitespace_as_suffix;
  if (parsed.algorithm == SentencePieceModel::Algorithm::unigram) tokenizer.unigram_ = UnigramPieces(parsed);
  tokenizer.restarts_ = parsed.restarts;
  tokenizer.read_pieces(parsed);
  return tokenizer;
}

void SentencePieceTokenizer::read_pieces(const SentencePieceModel& model) {
  std::vector<int32_t> bytes(256, -1);
  texts_.reserve(model.pieces.size());
  for (const auto& piece : model.pieces) {
    const auto id = static_cast<int32_t>(texts_.size());
    piece_bytes_.push_back(piece.type == PieceType::byte ? 1 : static_cast<uint32_t>(piece.text.size()));
    if (const auto added = std::ranges::find(model.added, id, &AddedToken::id); added != model.added.end()) {
      control_.add(*added);
      if (added->special) special_names_.push_back(piece.text);
      texts_.push_back(added->special ? "" : piece.text);
    } else if (piece.type == PieceType::byte) {
      const int value = std::stoi(piece.text.substr(3, 2), nullptr, 16);  // "<0x41>"
      bytes[static_cast<size_t>(value)] = id;
      texts_.emplace_back(1, static_cast<char>(value));
    } else if (piece.type == PieceType::control) {
      control_.add({.id = id, .text = piece.text});
      special_names_.push_back(piece.text);
      texts_.emplace_back();
    } else if (piece.type == PieceType::unknown) {
      texts_.emplace_back(" \xE2\x81\x87 ");  // SentencePiece's own surface, U+2047 between spaces
    } else {
      joined_.add(piece.text);
      if (character_length(piece.text) == piece.text.size()) known_.add(piece.text + piece.text);
      texts_.push_back(replace_marks(piece.text));
    }
  }
  if (std::find(bytes.begin(), bytes.end(), -1) == bytes.end()) byte_ids_ = std::move(bytes);
}

std::unique_ptr<TextEncoder> SentencePieceTokenizer::make_encoder(SpecialTokens special) const {
  return std::make_unique<SentencePieceEncoder>(*this, special);
}

std::string SentencePieceTokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  bool at_start = dummy_prefix_;
  for (int32_t id : ids) {
    std::string_view piece = text_of(id);
    if (piece.empty()) continue;
    if (at_start && piece.front() == ' ') piece.remove_prefix(1);
    at_start = false;
    text += piece;
  }
  if (dummy_suffix_ && text.ends_with(' ')) text.pop_back();
  return text;
}

// Returns whether normalised text may be split between these characters. SentencePiece merges neighbouring unknown
// characters into one unknown token where it has no byte pieces, and a word model looks words up as a whole.
bool SentencePieceTokenizer::keeps_apart(uint32_t left, uint32_t right) const {
  if (algorithm_ == SentencePieceModel::Algorithm::word) return false;
  if (joined_.contains(left, right)) return false;
  return has_bytes() || known_.contains(left, left) || known_.contains(right, right);
}

size_t SentencePieceTokenizer::cut(std::string_view text) const {
  for (size_t at = text.size(); at-- > 1;) {
    if (!is_between_characters(text, at) || control_.touches(text, at)) continue;
    const auto seam = normalizer_.seam(text, at);
    if (seam && keeps_apart(seam->left, seam->right)) return at;
  }
  return cut_at_blank(text);  // not exact
}

}  // namespace terrace::data
