// Splits text into parts that SentencePiece encodes, words that are known, and bytes outside of UTF-8.
#include "terrace/data/text/tokenizer/sentencepiece/sentencepiece_encoder.h"

#include <sentencepiece_processor.h>

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/data/text/tokenizer/utf8.h"

namespace terrace::data {
namespace {

constexpr size_t longest_run = 256;  // bytes, about

}  // namespace

void SentencePieceEncoder::encode(std::string_view text, bool starts_text, bool ends_text, std::vector<int32_t>& ids) {
  bool starts = starts_text;
  size_t done = 0;
  counts_.special_texts +=
      tokenizer_.control_.split(text, special_, [&](std::string_view part, const AddedToken* token) {
        done += part.size();
        if (token != nullptr) {
          ids.push_back(token->id);
          starts = tokenizer_.restarts_;  // whether what follows is encoded as a text of its own
        } else {
          encode_section(part, starts, done < text.size() || ends_text, ids);
        }
      });
}

void SentencePieceEncoder::encode_section(std::string_view text, bool starts, bool ends, std::vector<int32_t>& ids) {
  count_marks(text);
  if (!tokenizer_.has_bytes()) {
    for (size_t at = 0; at < text.size(); ++at) {
      at += valid_length(text.substr(at));
      if (at < text.size()) ++counts_.invalid_bytes, ++counts_.replaced_bytes;
    }
    normalized_.clear();
    tokenizer_.normalizer_.normalize(text, starts, ends, normalized_);
    return encode_normalized(normalized_, ids);
  }
  do {
    const size_t valid = valid_length(text);
    normalized_.clear();
    tokenizer_.normalizer_.normalize(text.substr(0, valid), starts, ends && valid == text.size(), normalized_);
    encode_normalized(normalized_, ids);
    text.remove_prefix(valid);
    starts = false;
    if (text.empty()) return;
    ++counts_.invalid_bytes;
    ids.push_back(tokenizer_.byte_ids_[static_cast<uint8_t>(text.front())]);
    text.remove_prefix(1);
  } while (!text.empty());
}

void SentencePieceEncoder::count_marks(std::string_view text) {
  for (size_t at = text.find(space_mark); at != std::string_view::npos; at = text.find(space_mark, at + 1)) {
    ++counts_.space_marks;
  }
}

void SentencePieceEncoder::encode_normalized(std::string_view text, std::vector<int32_t>& ids) {
  if (text.empty()) return;
  if (tokenizer_.algorithm_ == SentencePieceModel::Algorithm::unigram) return encode_unigram(text, ids);
  encode_by_words(text, ids);
}

void SentencePieceEncoder::encode_unigram(std::string_view text, std::vector<int32_t>& ids) {
  bool behind_unknown = false;
  tokenizer_.unigram_.spell(text, [&](std::string_view piece, int32_t id) {
    if (id >= 0) {
      ids.push_back(id);
    } else if (tokenizer_.has_bytes()) {
      for (char byte : piece) ids.push_back(tokenizer_.byte_ids_[static_cast<uint8_t>(byte)]);
    } else if (!behind_unknown) {  // neighbours become one token
      ids.push_back(tokenizer_.unknown_token());
      ++counts_.unknown_tokens;
    }
    behind_unknown = id < 0;
  });
}

// Words that are not cached are encoded in runs, since a call of SentencePiece costs as much as several words.
void SentencePieceEncoder::encode_by_words(std::string_view text, std::vector<int32_t>& ids) {
  size_t run = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t length = word_length(text.substr(at));
    const WordCache::Word* known = words_.find(text.substr(at, length));
    const size_t run_end = known == nullptr ? at + length : at;
    at += length;
    if (known == nullptr && at - run < longest_run && at < text.size()) continue;
    const WordCache::Word word =
        known == nullptr ? WordCache::Word{} : *known;  // a copy: the run's words may take its slot
    if (run_end > run) encode_run(text.substr(run, run_end - run), ids);
    ids.insert(ids.end(), word.found().begin(), word.found().end());
    run = at;
  }
}

size_t SentencePieceEncoder::word_length(std::string_view text) const {
  const bool by_words = tokenizer_.algorithm_ == SentencePieceModel::Algorithm::bpe;
  if (!by_words && text.size() <= longest_segment) return text.size();
  const std::string_view seen = text.substr(0, longest_segment);
  size_t length = 0;  // of the longest part that may stand alone
  uint32_t before = code_point(text);
  for (size_t at = character_length(text.substr(0, 4)); at < seen.size();) {
    const uint32_t here = code_point(text.substr(at));
    if (tokenizer_.keeps_apart(before, here)) {
      length = at;
      if (by_words) return length;
    }
    before = here;
    at += character_length(text.substr(at, 4));
  }
  if (length > 0) return length;
  return text.size() <= longest_segment ? text.size() : cut_at_blank(seen);  // not exact
}

void SentencePieceEncoder::encode_run(std::string_view run, std::vector<int32_t>& ids) {
  const size_t before = ids.size();
  pieces_.clear();
  const auto status = tokenizer_.processor_->Encode(run, &pieces_);
  TERRACE_CHECK(status.ok(), "SentencePiece: {}", status.ToString());
  ids.insert(ids.end(), pieces_.begin(), pieces_.end());
  if (!tokenizer_.has_bytes()) {
    counts_.unknown_tokens +=
        static_cast<uint64_t>(std::count(pieces_.begin(), pieces_.end(), tokenizer_.unknown_token()));
  }
  if (tokenizer_.algorithm_ == SentencePieceModel::Algorithm::bpe) remember(run, std::span(ids).subspan(before));
}

// Divides the ids of a run among its words by their bytes.
void SentencePieceEncoder::remember(std::string_view run, std::span<const int32_t> ids) {
  while (!run.empty()) {
    const std::string_view text = run.substr(0, word_length(run));
    size_t bytes = 0, num_ids = 0;
    while (bytes < text.size() && num_ids < ids.size()) {
      const int32_t id = ids[num_ids++];
      if (id == tokenizer_.unknown_token()) return;  // an unknown token stands for any number of bytes
      bytes += tokenizer_.piece_bytes_[static_cast<size_t>(id)];
    }
    if (bytes != text.size()) return;
    words_.remember(text, ids.first(num_ids));
    run.remove_prefix(text.size());
    ids = ids.subspan(num_ids);
  }
}

}  // namespace terrace::data
