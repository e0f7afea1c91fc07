// Splitting text into runs that SentencePiece keeps, words, and bytes to escape.
#include "terrace/data/text_encoder.h"

#include <sentencepiece_processor.h>

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/data/utf8.h"

namespace terrace::data {
namespace {

constexpr std::string_view space_mark = "\xE2\x96\x81";  // U+2581
constexpr size_t longest_remembered_word = 64;           // bytes
constexpr size_t remembered_words = size_t{1} << 17;     // about 20 MB a thread
constexpr size_t longest_segment = size_t{1} << 14;      // SentencePiece's time a byte grows with the text's length

// Bytes at the front of `text` that SentencePiece keeps: valid UTF-8 without its space mark.
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

EncodeCounts& EncodeCounts::operator+=(const EncodeCounts& other) {
  invalid_bytes += other.invalid_bytes;
  space_marks += other.space_marks;
  unknown_tokens += other.unknown_tokens;
  return *this;
}

void TextEncoder::encode(std::string_view text, bool starts_text, std::vector<int32_t>& ids) {
  while (!text.empty()) {
    const size_t plain = plain_length(text);
    if (plain > 0) encode_plain(text.substr(0, plain), starts_text, ids);
    text.remove_prefix(plain);
    starts_text = false;
    if (!text.empty()) text.remove_prefix(append_escaped(text, ids));
  }
}

void TextEncoder::encode_plain(std::string_view text, bool starts_text, std::vector<int32_t>& ids) {
  const bool has_words = tokenizer_.spaces_start_words_ || tokenizer_.newlines_stand_alone_;
  while (!text.empty()) {
    const size_t limit = std::min(text.size(), longest_segment);
    size_t end = has_words && text.size() > 1 ? 1 : limit;
    while (end < limit && !tokenizer_.starts_word(text, end)) ++end;
    if (end == longest_segment && end < text.size()) end = tokenizer_.cut(text.substr(0, end));
    const std::string_view word = text.substr(0, end);
    // With a dummy prefix the first word has other ids than the same word further on.
    const bool special = starts_text && tokenizer_.dummy_prefix_;
    if (special || end > longest_remembered_word) {
      encode_segment(word, starts_text, ids);
    } else {
      encode_word(word, ids);
    }
    starts_text = false;
    text.remove_prefix(end);
  }
}

void TextEncoder::encode_word(std::string_view word, std::vector<int32_t>& ids) {
  if (const auto found = words_.find(word); found != words_.end()) {
    const auto begin = word_ids_.begin() + found->second.begin;
    ids.insert(ids.end(), begin, begin + found->second.size);
    return;
  }
  const size_t before = ids.size();
  const uint64_t unknown_before = counts_.unknown_tokens;
  encode_segment(word, false, ids);
  if (counts_.unknown_tokens != unknown_before) return;  // must be counted again when met again
  if (words_.size() >= remembered_words) {
    words_.clear();
    word_ids_.clear();
  }
  words_.emplace(word, Slice{static_cast<uint32_t>(word_ids_.size()), static_cast<uint32_t>(ids.size() - before)});
  word_ids_.insert(word_ids_.end(), ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end());
}

// Where the model puts a space before every text, one that the segment starts with is left to it; otherwise the guard
// takes it.
void TextEncoder::encode_segment(std::string_view segment, bool starts_text, std::vector<int32_t>& ids) {
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

void TextEncoder::append_pieces(std::string_view text, std::vector<int32_t>& ids) {
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
size_t TextEncoder::append_escaped(std::string_view text, std::vector<int32_t>& ids) {
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
