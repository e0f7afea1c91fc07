// Splits text into words, runs of words that SentencePiece keeps as they are, and bytes to escape.
#include "terrace/data/text/tokenizer/sentencepiece_encoder.h"

#include <sentencepiece_processor.h>

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/data/text/tokenizer/utf8.h"

namespace terrace::data {
namespace {

constexpr size_t longest_run = 256;                  // bytes, about
constexpr size_t longest_segment = size_t{1} << 14;  // SentencePiece's time a byte grows with the text's length

// The number of bytes at the start of `text` that SentencePiece keeps: valid UTF-8 without its space mark.
size_t plain_length(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    if (static_cast<uint8_t>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const std::string_view rest = text.substr(at, 4);
    const size_t length = character_length(rest);
    if (length == 0 || rest.substr(0, length) == space_mark) break;
    at += length;
  }
  return at;
}

}  // namespace

void SentencePieceEncoder::encode(std::string_view text, bool starts_text, std::vector<int32_t>& ids) {
  while (!text.empty()) {
    const size_t plain = plain_length(text);
    if (plain > 0) encode_plain(text.substr(0, plain), starts_text, ids);
    text.remove_prefix(plain);
    starts_text = false;
    if (!text.empty()) text.remove_prefix(append_escaped(text, ids));
  }
}

// Words that are not cached are encoded in runs, since a call of SentencePiece costs as much as several words.
void SentencePieceEncoder::encode_plain(std::string_view text, bool starts_text, std::vector<int32_t>& ids) {
  size_t run = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t length = word_length(text.substr(at));
    // With a dummy prefix the first word has other ids than the same word further on.
    const bool special = at == 0 && starts_text && tokenizer_.dummy_prefix_;
    const WordCache::Word* known = special ? nullptr : words_.find(text.substr(at, length));
    const size_t run_end = known == nullptr ? at + length : at;
    at += length;
    if (known == nullptr && at - run < longest_run && at < text.size()) continue;
    const WordCache::Word word =
        known == nullptr ? WordCache::Word{} : *known;  // a copy: the run's words may take its slot
    if (run_end > run) encode_run(text.substr(run, run_end - run), run == 0 && starts_text, ids);
    ids.insert(ids.end(), word.found().begin(), word.found().end());
    run = at;
  }
}

size_t SentencePieceEncoder::word_length(std::string_view text) const {
  const bool has_words = tokenizer_.spaces_start_words_ || tokenizer_.newlines_stand_alone_;
  const size_t limit = std::min(text.size(), longest_segment);
  size_t end = has_words && limit > 1 ? 1 : limit;
  while (end < limit && !tokenizer_.starts_word(text, end)) ++end;
  return end == longest_segment && end < text.size() ? tokenizer_.cut(text.substr(0, end)) : end;
}

void SentencePieceEncoder::encode_run(std::string_view run, bool starts_text, std::vector<int32_t>& ids) {
  const size_t before = ids.size();
  encode_segment(run, starts_text, ids);
  if (starts_text && tokenizer_.dummy_prefix_) return;
  remember(run, std::span(ids).subspan(before));
}

// Divides the ids of a run among its words by their bytes, as far as these equal those of the run: a model may
// normalise.
void SentencePieceEncoder::remember(std::string_view run, std::span<const int32_t> ids) {
  while (!run.empty()) {
    const std::string_view text = run.substr(0, word_length(run));
    size_t bytes = 0, num_ids = 0;
    while (bytes < text.size() && num_ids < ids.size()) {
      const std::string_view piece = tokenizer_.text_of(ids[num_ids++]);
      if (piece.empty() || text.substr(bytes, piece.size()) != piece) return;
      bytes += piece.size();
    }
    if (bytes != text.size()) return;
    words_.remember(text, ids.first(num_ids));
    run.remove_prefix(text.size());
    ids = ids.subspan(num_ids);
  }
}

// Where the model puts a space before every text, one that the segment starts with is left to it; otherwise the guard
// takes it.
void SentencePieceEncoder::encode_segment(std::string_view segment, bool starts_text, std::vector<int32_t>& ids) {
  if (!tokenizer_.dummy_prefix_ || starts_text) {
    append_pieces(segment, ids);
  } else if (segment.size() > 1 && segment.front() == ' ') {
    append_pieces(segment.substr(1), ids);
  } else {
    const auto begin = static_cast<std::ptrdiff_t>(ids.size());
    append_pieces(tokenizer_.guard_ + std::string(segment), ids);
    const std::vector<int32_t>& guard = tokenizer_.guard_ids_;
    const bool guarded = ids.size() - static_cast<size_t>(begin) >= guard.size() &&
                         std::equal(guard.begin(), guard.end(), ids.begin() + begin);
    if (guarded) ids.erase(ids.begin() + begin, ids.begin() + begin + static_cast<std::ptrdiff_t>(guard.size()));
  }
}

void SentencePieceEncoder::append_pieces(std::string_view text, std::vector<int32_t>& ids) {
  pieces_.clear();
  const auto status = tokenizer_.processor_->Encode(text, &pieces_);
  TERRACE_CHECK(status.ok(), "SentencePiece: {}", status.ToString());
  if (!tokenizer_.has_bytes()) {
    counts_.unknown_tokens +=
        static_cast<uint64_t>(std::count(pieces_.begin(), pieces_.end(), tokenizer_.unknown_token()));
  }
  ids.insert(ids.end(), pieces_.begin(), pieces_.end());
}

// One space mark or one invalid byte; returns the bytes taken.
size_t SentencePieceEncoder::append_escaped(std::string_view text, std::vector<int32_t>& ids) {
  const size_t length = text.starts_with(space_mark) ? space_mark.size() : 1;
  (length == 1 ? counts_.invalid_bytes : counts_.space_marks) += 1;
  if (!tokenizer_.has_bytes()) {
    ids.push_back(tokenizer_.unknown_token());
    ++counts_.unknown_tokens;
    return length;
  }
  for (char byte : text.substr(0, length)) ids.push_back(tokenizer_.byte_ids_[static_cast<uint8_t>(byte)]);
  return length;
}

}  // namespace terrace::data
