// Encodes text to ids with a byte-level BPE.
#include "terrace/data/text/tokenizer/byte_pair_encoder.h"

#include <algorithm>
#include <functional>

#include "terrace/data/text/tokenizer/normal_form.h"
#include "terrace/data/text/tokenizer/utf8.h"

namespace terrace::data {
namespace {

using AddedByByte = std::vector<std::vector<const AddedToken*>>;

// Calls take(part, token) for the text before each added token (token null, the part perhaps empty) and for the token;
// of tokens that start at one place the longest counts.
template <typename Take>
void split_at_tokens(std::string_view text, const AddedByByte& added, Take take) {
  size_t done = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    for (const AddedToken* token : added[static_cast<uint8_t>(text[at])]) {
      if (!text.substr(at).starts_with(token->text)) continue;
      take(text.substr(done, at - done), nullptr);
      take(text.substr(at, token->text.size()), token);
      done = at + token->text.size();
      at = done - 1;
      break;
    }
  }
  take(text.substr(done), nullptr);
}

}  // namespace

BytePairEncoder::BytePairEncoder(const BytePairTokenizer& tokenizer) : tokenizer_(tokenizer) {
  for (const UnicodePattern& pattern : tokenizer.patterns_) matchers_.emplace_back(pattern);
}

void BytePairEncoder::encode(std::string_view text, bool starts_text, std::vector<int32_t>& ids) {
  bool starts_section = starts_text;
  split_at_tokens(text, tokenizer_.plain_added_, [&](std::string_view outer, const AddedToken* plain) {
    if (plain != nullptr) {
      ids.push_back(plain->id);
      starts_section = true;
      return;
    }
    const std::string_view normalized = tokenizer_.model_.normal_form_c ? to_normal_form_c(outer, normalized_) : outer;
    split_at_tokens(normalized, tokenizer_.normalized_added_, [&](std::string_view part, const AddedToken* token) {
      if (token != nullptr) {
        ids.push_back(token->id);
      } else if (!part.empty()) {
        encode_section(part, starts_section, ids);
      }
      starts_section = true;
    });
  });
}

void BytePairEncoder::encode_section(std::string_view text, bool starts_section, std::vector<int32_t>& ids) {
  std::string prefixed;
  if (starts_section && tokenizer_.model_.add_prefix_space && text.front() != ' ') {
    prefixed = " " + std::string(text);
    text = prefixed;
  }
  while (!text.empty()) {
    const size_t valid = valid_length(text);
    if (valid > 0) encode_run(text.substr(0, valid), 0, ids);
    text.remove_prefix(valid);
    if (text.empty()) return;
    ++counts_.invalid_bytes;
    ids.push_back(tokenizer_.byte_ids_[static_cast<uint8_t>(text.front())]);
    text.remove_prefix(1);
  }
}

void BytePairEncoder::encode_run(std::string_view text, size_t level, std::vector<int32_t>& ids) {
  if (level == matchers_.size()) return encode_word(text, ids);
  matchers_[level].split(text, [&](std::string_view piece) { encode_run(piece, level + 1, ids); });
}

void BytePairEncoder::encode_word(std::string_view word, std::vector<int32_t>& ids) {
  if (const WordCache::Word* known = words_.find(word)) {
    ids.insert(ids.end(), known->found().begin(), known->found().end());
    return;
  }
  const size_t before = ids.size();
  const auto whole = tokenizer_.words_.find(std::string(word));
  if (whole != tokenizer_.words_.end()) {
    ids.push_back(whole->second);
  } else {
    merge(word, ids);
  }
  words_.remember(word, std::span(ids).subspan(before));
}

void BytePairEncoder::add_candidate(int32_t left) {
  const int32_t right = left < 0 ? -1 : symbols_[static_cast<size_t>(left)].next;
  if (right < 0) return;
  const int32_t left_id = symbols_[static_cast<size_t>(left)].id, right_id = symbols_[static_cast<size_t>(right)].id;
  const auto found = tokenizer_.merges_.find(BytePairTokenizer::pair_key(left_id, right_id));
  if (found == tokenizer_.merges_.end()) return;
  candidates_.push_back({found->second.rank, left, left_id, right_id, found->second.result});
  std::push_heap(candidates_.begin(), candidates_.end(), std::greater<>());
}

// Merges tokens, the lowest rank first and the leftmost of equal ranks, until no merge applies.
void BytePairEncoder::merge(std::string_view word, std::vector<int32_t>& ids) {
  symbols_.clear();
  candidates_.clear();
  const auto length = static_cast<int32_t>(word.size());
  for (int32_t at = 0; at < length; ++at) {
    const int32_t id = tokenizer_.byte_ids_[static_cast<uint8_t>(word[static_cast<size_t>(at)])];
    symbols_.push_back({id, at - 1, at + 1 < length ? at + 1 : -1});
  }
  for (int32_t at = 0; at < length; ++at) add_candidate(at);
  while (!candidates_.empty()) {
    const Candidate best = candidates_.front();
    std::pop_heap(candidates_.begin(), candidates_.end(), std::greater<>());
    candidates_.pop_back();
    Symbol& left = symbols_[static_cast<size_t>(best.at)];
    if (left.id != best.left || left.next < 0) continue;  // one of the two is part of another token by now
    Symbol& right = symbols_[static_cast<size_t>(left.next)];
    if (right.id != best.right) continue;
    left.id = best.result;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) symbols_[static_cast<size_t>(left.next)].previous = best.at;
    add_candidate(left.previous);
    add_candidate(best.at);
  }
  for (int32_t at = 0; at >= 0; at = symbols_[static_cast<size_t>(at)].next) {
    ids.push_back(symbols_[static_cast<size_t>(at)].id);
  }
}

}  // namespace terrace::data
