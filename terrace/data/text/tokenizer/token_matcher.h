// Finds the tokens that stand for a whole string of text, such as <|endoftext|>, before the text between them is split
// into words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/data/text/tokenizer/special_tokens.h"

namespace terrace::data {

// A token that is matched in the text as a whole, before words are split.
struct AddedToken {
  int32_t id = 0;
  std::string text;
  bool special = true;       // a control token: decodes to nothing
  bool normalized = false;   // matched only in the text that added tokens without this flag leave, after the normalizer
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space behind it
  bool single_word = false;  // not matched beside a letter, a digit or the like
  bool operator==(const AddedToken&) const = default;
};

// Matches as the added tokens of the tokenizers package are matched. Safe to share between threads.
class TokenMatcher {
 public:
  void add(AddedToken token);
  bool empty() const { return longest_ == 0; }

  // Calls take(part, token) for the text before each token (token null, the part perhaps empty), for the token, and for
  // the text behind the last one. Of tokens that start at one place the longest counts. SpecialTokens::split leaves the
  // special ones in the text. Returns how often the text of a special one occurs.
  uint64_t split(std::string_view text, SpecialTokens special,
                 const std::function<void(std::string_view, const AddedToken*)>& take) const;

  // Returns whether the text of a token may lie across `at`, which is inside `text`; also one that `text` ends within,
  // and one that takes the white space there.
  bool crosses(std::string_view text, size_t at) const;
  // Returns whether the text of a token may lie across `at`, end there or begin there.
  bool touches(std::string_view text, size_t at) const;

 private:
  bool may_lie(std::string_view text, size_t at, size_t first_begin, size_t last_begin, bool may_end) const;

  std::vector<std::vector<AddedToken>> by_first_byte_ = std::vector<std::vector<AddedToken>>(256);  // longest first
  size_t longest_ = 0;                                                                              // bytes
  bool any_lstrip_ = false;
};

}  // namespace terrace::data
