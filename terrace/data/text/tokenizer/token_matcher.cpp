// Matches added tokens by their first byte, the longest first.
#include "terrace/data/text/tokenizer/token_matcher.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>

#include "terrace/data/text/tokenizer/byte_pair/character_pairs.h"
#include "terrace/data/text/tokenizer/utf8.h"

namespace terrace::data {
namespace {

// Returns whether a character is one of a word as Unicode's regular expressions have it (UTS #18, \w).
bool is_word_character(uint32_t code) {
  if (code == 0x200C || code == 0x200D) return true;            // joiners
  if (code >= 0x24B6 && code <= 0x24E9) return true;            // letters in circles
  if (code >= 0x1F130 && code <= 0x1F189 && code != 0x1F14A) {  // letters in squares
    return code <= 0x1F149 || (code >= 0x1F150 && code <= 0x1F169) || code >= 0x1F170;
  }
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

bool starts_with_word(std::string_view text) {
  return !text.empty() && character_length(text.substr(0, 4)) > 0 && is_word_character(code_point(text));
}

bool ends_with_word(std::string_view text) {
  if (text.empty()) return false;
  const size_t begin = last_character(text);
  return character_length(text.substr(begin)) == text.size() - begin &&
         is_word_character(code_point(text.substr(begin)));
}

}  // namespace

void TokenMatcher::add(AddedToken token) {
  longest_ = std::max(longest_, token.text.size());
  any_lstrip_ = any_lstrip_ || token.lstrip;
  auto& group = by_first_byte_[static_cast<uint8_t>(token.text.front())];
  const auto place = std::find_if(group.begin(), group.end(),
                                  [&](const AddedToken& other) { return other.text.size() < token.text.size(); });
  group.insert(place, std::move(token));
}

uint64_t TokenMatcher::split(std::string_view text, SpecialTokens special,
                             const std::function<void(std::string_view, const AddedToken*)>& take) const {
  uint64_t special_texts = 0;
  size_t done = 0;
  for (size_t at = 0; at < text.size() && longest_ > 0;) {
    const auto& group = by_first_byte_[static_cast<uint8_t>(text[at])];
    const auto found = std::find_if(group.begin(), group.end(),
                                    [&](const AddedToken& one) { return text.substr(at).starts_with(one.text); });
    if (found == group.end()) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + found->text.size();
    at = end;  // what is passed over is not searched again
    if (found->special) ++special_texts;
    if (found->special && special == SpecialTokens::split) continue;
    if (found->single_word && (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) continue;
    while (found->lstrip && begin > done && ends_with_space(text.substr(0, begin))) {
      begin = last_character(text.substr(0, begin));
    }
    while (found->rstrip && end < text.size() && starts_with_space(text.substr(end))) {
      end += character_length(text.substr(end, 4));
    }
    begin = std::max(begin, done);
    take(text.substr(done, begin - done), nullptr);
    take(text.substr(begin, end - begin), &*found);
    done = end;
  }
  take(text.substr(done), nullptr);
  return special_texts;
}

// Returns whether a token that begins from `first_begin` to `last_begin` reaches past `at`, or with `may_end` up to it.
bool TokenMatcher::may_lie(std::string_view text, size_t at, size_t first_begin, size_t last_begin,
                           bool may_end) const {
  for (size_t begin = first_begin; begin <= last_begin; ++begin) {
    for (const AddedToken& token : by_first_byte_[static_cast<uint8_t>(text[begin])]) {
      const std::string_view seen = text.substr(begin, token.text.size());
      if (begin + token.text.size() + (may_end ? 1 : 0) > at && std::string_view(token.text).starts_with(seen)) {
        return true;
      }
    }
  }
  return false;
}

bool TokenMatcher::crosses(std::string_view text, size_t at) const {
  if (longest_ == 0) return false;
  if (may_lie(text, at, at - std::min(at, longest_), at - 1, false)) return true;
  // White space on one side of the cut would be taken by a token on the other.
  if (any_lstrip_ && ends_with_space(text.substr(0, at)) && may_lie(text, at, at, at, false)) return true;
  for (size_t begin = at - std::min(at, longest_); begin < at && starts_with_space(text.substr(at)); ++begin) {
    for (const AddedToken& token : by_first_byte_[static_cast<uint8_t>(text[begin])]) {
      if (token.rstrip && text.substr(begin, at - begin) == token.text) return true;
    }
  }
  return false;
}

bool TokenMatcher::touches(std::string_view text, size_t at) const {
  return longest_ > 0 && may_lie(text, at, at - std::min(at, longest_), at, true);
}

}  // namespace terrace::data
