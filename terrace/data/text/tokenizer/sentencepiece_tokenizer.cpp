// Reads a SentencePiece model: the bytes of its pieces, and the positions at which text may be split.
#include "terrace/data/text/tokenizer/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/data/text/tokenizer/sentencepiece_encoder.h"
#include "terrace/data/text/tokenizer/utf8.h"

namespace terrace::data {
namespace {

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

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer()
    : processor_(std::make_unique<sentencepiece::SentencePieceProcessor>()) {}
SentencePieceTokenizer::SentencePieceTokenizer(SentencePieceTokenizer&&) noexcept = default;
SentencePieceTokenizer::~SentencePieceTokenizer() = default;

SentencePieceTokenizer SentencePieceTokenizer::from_model(std::string model, const std::string& name) {
  SentencePieceTokenizer tokenizer;
  const auto status = model.empty() ? sentencepiece::util::Status(sentencepiece::util::StatusCode::kDataLoss, "empty")
                                    : tokenizer.processor_->LoadFromSerializedProto(model);
  if (!status.ok()) throw UserError::of("{} is not a SentencePiece model: {}", name, status.ToString());
  tokenizer.model_ = std::move(model);
  tokenizer.end_token_ = tokenizer.processor_->eos_id();
  if (tokenizer.end_token_ >= 0) tokenizer.end_token_name_ = tokenizer.processor_->IdToPiece(tokenizer.end_token_);
  tokenizer.unknown_token_ = tokenizer.processor_->unk_id();
  tokenizer.read_pieces();
  tokenizer.find_word_rules();
  tokenizer.find_dummy_prefix(name);
  return tokenizer;
}

void SentencePieceTokenizer::read_pieces() {
  std::vector<int32_t> bytes(256, -1);
  const int size = processor_->GetPieceSize();
  texts_.reserve(static_cast<size_t>(size));
  for (int id = 0; id < size; ++id) {
    const std::string& piece = processor_->IdToPiece(id);
    if (processor_->IsByte(id)) {
      const int value = std::stoi(piece.substr(3, 2), nullptr, 16);  // "<0x41>"
      bytes[static_cast<size_t>(value)] = id;
      texts_.emplace_back(1, static_cast<char>(value));
    } else if (processor_->IsControl(id)) {
      texts_.emplace_back();
    } else if (processor_->IsUnknown(id)) {
      texts_.emplace_back(" \xE2\x81\x87 ");  // SentencePiece's own surface, U+2047 between spaces
    } else {
      texts_.push_back(replace_marks(piece));
    }
  }
  if (std::find(bytes.begin(), bytes.end(), -1) == bytes.end()) byte_ids_ = std::move(bytes);
}

void SentencePieceTokenizer::find_word_rules() {
  std::string seen(256, '\0');
  for (int id = 0; id < static_cast<int>(texts_.size()); ++id) {
    if (processor_->IsByte(id) || processor_->IsControl(id) || processor_->IsUnknown(id)) continue;
    const std::string& text = texts_[static_cast<size_t>(id)];
    for (size_t i = 0; i < text.size(); ++i) {
      seen[static_cast<uint8_t>(text[i])] = 1;
      if (i == 0) continue;
      if (text[i] == ' ' && text[i - 1] != ' ') spaces_start_words_ = false;
      if ((text[i] == '\n') != (text[i - 1] == '\n')) newlines_stand_alone_ = false;
    }
  }
  for (char control = 1; control < 9 && guard_.empty(); ++control) {
    if (seen[static_cast<uint8_t>(control)] == 0) guard_ = std::string(1, control);
  }
}

void SentencePieceTokenizer::find_dummy_prefix(const std::string& name) {
  const auto shown = [&](std::string_view text) {
    std::string all;
    for (int id : processor_->EncodeAsIds(text)) all += texts_[static_cast<size_t>(id)];
    return all;
  };
  const std::string letter = shown("a");
  if (letter.size() > 1 && letter.back() == ' ' && letter.front() != ' ') {
    throw UserError::of(
        "{} marks spaces at the end of words (treat_whitespace_as_suffix), which terrace cannot encode in parts; train "
        "one without, such as with --train-tokenizer",
        name);
  }
  dummy_prefix_ = letter.size() > 1 && letter.front() == ' ';
  if (dummy_prefix_ && !guard_.empty()) guard_ids_ = processor_->EncodeAsIds(guard_);
}

std::unique_ptr<TextEncoder> SentencePieceTokenizer::make_encoder() const {
  return std::make_unique<SentencePieceEncoder>(*this);
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
  return text;
}

bool SentencePieceTokenizer::starts_word(std::string_view text, size_t at) const {
  const char before = text[at - 1], here = text[at];
  return (spaces_start_words_ && here == ' ' && before != ' ') ||
         (newlines_stand_alone_ && (here == '\n') != (before == '\n'));
}

size_t SentencePieceTokenizer::cut(std::string_view text) const {
  for (size_t at = text.size(); at-- > 1;) {
    if (starts_word(text, at)) return at;
  }
  return cut_at_blank(text);  // not exact
}

}  // namespace terrace::data
