// Encodes text to ids with a byte-level BPE.
#include "terrace/data/text/tokenizer/byte_pair/byte_pair_encoder.h"

#include <algorithm>
#include <functional>

#include "terrace/data/text/tokenizer/sentencepiece/normal_form.h"
#include "terrace/data/text/tokenizer/utf8.h"

namespace terrace::data {

void BytePairEncoder::encode(std::string_view text, bool starts_text, bool, std::vector<int32_t>& ids) {
  bool starts_section = starts_text;
  const auto take_token = [&](const AddedToken& token) {
    ids.push_back(token.id);
    starts_section = true;
  };
  counts_.special_texts +=
      tokenizer_.plain_added_.split(text, special_, [&](std::string_view outer, const AddedToken* plain) {
        if (plain != nullptr) return take_token(*plain);
        const std::string_view normalized =
            tokenizer_.model_.normal_form_c ? to_normal_form_c(outer, normalized_) : outer;
        counts_.special_texts += tokenizer_.normalized_added_.split(
            normalized, special_, [&](std::string_view part, const AddedToken* token) {
              if (token != nullptr) return take_token(*token);
              if (part.empty()) return;
              encode_section(part, starts_section, ids);
              starts_section = false;
            });
      });
}

void BytePairEncoder::encode_section(std::string_view text, bool starts_section, std::vector<int32_t>& ids) {
  std::string prefixed;
  if (starts_section && tokenizer_.prefixes_section_ && text.front() != ' ') {
    prefixed = " " + std::string(text);
    text = prefixed;
  }
  while (!text.empty()) {
    const size_t valid = valid_length(text);
    splitter_.split(text.substr(0, valid), [&](std::string_view word) { encode_word(word, ids); });
    text.remove_prefix(valid);
    if (text.empty()) return;
    ++counts_.invalid_bytes;
    const int32_t id = tokenizer_.byte_ids_[static_cast<uint8_t>(text.front())];
    text.remove_prefix(1);
    if (id >= 0) {
      ids.push_back(id);
    } else {
      ++counts_.replaced_bytes;
      encode_word(replacement_character, ids);
    }
  }
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
