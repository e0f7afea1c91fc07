// Splits text by an expression, as a pre-tokenizer of tokenizer.json does.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "terrace/data/text/tokenizer/byte_pair/unicode_pattern.h"

namespace terrace::data {

// The fates of a match: left out, a piece, joined to the piece before or behind it, or to the matches beside it.
enum class SplitBehavior : uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };

struct SplitRule {
  std::string expression;
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;  // what lies between matches is treated as the matches are, and the matches as what lies between
  bool operator==(const SplitRule&) const = default;

  SplitRule(std::string text, SplitBehavior is = SplitBehavior::isolated, bool inverted = false)
      : expression(std::move(text)), behavior(is), invert(inverted) {}
  SplitRule(const char* text) : expression(text) {}
  bool drops_text() const { return behavior == SplitBehavior::removed; }
};

// Returns the pieces of valid UTF-8 for a rule that joins matches to others, in order.
std::vector<std::string_view> joined_pieces(const SplitRule& rule, UnicodePattern::Matcher& matcher,
                                            std::string_view text);

// Calls piece() for the pieces of valid UTF-8, in order, none of them empty.
template <typename Piece>
void split_by(const SplitRule& rule, UnicodePattern::Matcher& matcher, std::string_view text, const Piece& piece) {
  if (rule.behavior == SplitBehavior::isolated) {
    matcher.split(text, [&](std::string_view part, bool) { piece(part); });
  } else if (rule.behavior == SplitBehavior::removed) {
    matcher.split(text, [&](std::string_view part, bool is_match) {
      if (is_match == rule.invert) piece(part);
    });
  } else {
    for (std::string_view part : joined_pieces(rule, matcher, text)) piece(part);
  }
}

}  // namespace terrace::data
