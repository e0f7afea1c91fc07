// Joins and drops pieces as SplitDelimiterBehavior of the tokenizers package says.
#include "terrace/data/text/tokenizer/byte_pair/split_rule.h"

#include <algorithm>

namespace terrace::data {
namespace {

struct Piece {
  size_t begin = 0, end = 0;
  bool is_match = false;
};

// Joins each match to the piece before it; a match that follows a match stays alone.
template <typename Iterator>
std::vector<Piece> joined_to_neighbour(Iterator piece, Iterator end) {
  std::vector<Piece> joined;
  bool behind_match = false;
  for (; piece != end; ++piece) {
    if (piece->is_match && !behind_match && !joined.empty()) {
      joined.back().begin = std::min(joined.back().begin, piece->begin);
      joined.back().end = std::max(joined.back().end, piece->end);
    } else {
      joined.push_back(*piece);
    }
    behind_match = piece->is_match;
  }
  return joined;
}

std::vector<Piece> joined_runs(const std::vector<Piece>& pieces) {
  std::vector<Piece> joined;
  for (const Piece& piece : pieces) {
    if (!joined.empty() && joined.back().is_match == piece.is_match) {
      joined.back().end = piece.end;
    } else {
      joined.push_back(piece);
    }
  }
  return joined;
}

}  // namespace

std::vector<std::string_view> joined_pieces(const SplitRule& rule, UnicodePattern::Matcher& matcher,
                                            std::string_view text) {
  std::vector<Piece> pieces;
  matcher.split(text, [&](std::string_view part, bool is_match) {
    const auto begin = static_cast<size_t>(part.data() - text.data());
    pieces.push_back({.begin = begin, .end = begin + part.size(), .is_match = is_match != rule.invert});
  });
  if (rule.behavior == SplitBehavior::contiguous) {
    pieces = joined_runs(pieces);
  } else if (rule.behavior == SplitBehavior::merged_with_previous) {
    pieces = joined_to_neighbour(pieces.begin(), pieces.end());
  } else {
    pieces = joined_to_neighbour(pieces.rbegin(), pieces.rend());
    pieces = {pieces.rbegin(), pieces.rend()};
  }
  std::vector<std::string_view> parts;
  parts.reserve(pieces.size());
  for (const Piece& one : pieces) parts.push_back(text.substr(one.begin, one.end - one.begin));
  return parts;
}

}  // namespace terrace::data
