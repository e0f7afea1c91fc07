// Follows Normalizer::Normalize of SentencePiece (normalizer.cc), part by part.
#include "terrace/data/text/tokenizer/sentencepiece/sentencepiece_normalizer.h"

#include <algorithm>

#include "terrace/data/text/tokenizer/utf8.h"

namespace terrace::data {
SentencePieceNormalizer::SentencePieceNormalizer(const SentencePieceModel& model, const std::string& name)
    : map_(model.charsmap, name),
      dummy_(model.add_dummy_prefix),
      dummy_is_suffix_(model.whitespace_as_suffix),
      removes_spaces_(model.remove_extra_whitespaces),
      space_(model.escape_whitespaces ? space_mark : " ") {
  map_.for_each_key([&](std::string_view key) { changed_together_.add(key); });
  has_rules_ = !map_.empty();
  for (const auto& piece : model.pieces) {
    if (piece.type != SentencePieceModel::PieceType::user_defined || piece.text.empty()) continue;
    symbols_[static_cast<uint8_t>(piece.text.front())].push_back(piece.text);
    changed_together_.add(piece.text);
    has_rules_ = true;
  }
  for (auto& group : symbols_) {
    std::sort(group.begin(), group.end(), [](auto& a, auto& b) { return a.size() > b.size(); });
  }
}

size_t SentencePieceNormalizer::symbol_length(std::string_view text) const {
  for (const std::string& symbol : symbols_[static_cast<uint8_t>(text.front())]) {
    if (text.starts_with(symbol)) return symbol.size();
  }
  return 0;
}

// Returns what the beginning of the text becomes, and the bytes that it has.
SentencePieceNormalizer::Step SentencePieceNormalizer::step(std::string_view text) const {
  if (const size_t length = symbol_length(text)) return {text.substr(0, length), length};
  if (const auto replaced = map_.longest(text); replaced.length > 0) return {replaced.with, replaced.length};
  if (const size_t length = character_length(text)) return {text.substr(0, length), length};
  return {replacement_character, 1};
}

void SentencePieceNormalizer::normalize(std::string_view text, bool starts, bool ends, std::string& to) const {
  const size_t begin = to.size();
  if (starts && removes_spaces_) {
    while (!text.empty()) {
      const Step first = step(text);
      if (first.becomes != " ") break;
      text.remove_prefix(first.length);
    }
  }
  if (text.empty() && starts) return;
  if (starts && dummy_ && !dummy_is_suffix_) to += space_;
  bool behind_space = starts && removes_spaces_;
  while (!text.empty()) {
    const Step next = step(text);
    std::string_view becomes = next.becomes;
    text.remove_prefix(next.length);
    if (behind_space) becomes.remove_prefix(std::min(becomes.find_first_not_of(' '), becomes.size()));
    for (char byte : becomes) {
      if (byte == ' ') {
        to += space_;
      } else {
        to += byte;
      }
    }
    if (!becomes.empty()) behind_space = removes_spaces_ && becomes.ends_with(' ');
  }
  if (!ends) return;
  if (removes_spaces_) {
    while (std::string_view(to).substr(begin).ends_with(space_)) to.resize(to.size() - space_.size());
  }
  if (dummy_ && dummy_is_suffix_) to += space_;
}

// Returns what one character becomes, if it is not removed.
std::optional<std::string> SentencePieceNormalizer::alone(std::string_view character) const {
  std::string becomes;
  for (char byte : step(character).becomes) {
    if (byte == ' ') {
      becomes += space_;
    } else {
      becomes += byte;
    }
  }
  if (becomes.empty()) return std::nullopt;
  return becomes;
}

std::optional<SentencePieceNormalizer::Seam> SentencePieceNormalizer::seam(std::string_view text, size_t at) const {
  const size_t left = last_character(text.substr(0, at));
  const std::string_view left_character = text.substr(left, at - left);
  const std::string_view right_character = text.substr(at, character_length(text.substr(at, 4)));
  if (character_length(left_character) != left_character.size()) return std::nullopt;
  if (has_rules_) {
    // The two characters must be replaced one by one, whatever is around them.
    const size_t behind = at + right_character.size();
    const size_t behind_length = behind < text.size() ? character_length(text.substr(behind, 4)) : 0;
    if (behind_length == 0) return std::nullopt;
    const uint32_t here = code_point(left_character), next = code_point(right_character);
    if (changed_together_.contains(here, next)) return std::nullopt;
    if (changed_together_.contains(next, code_point(text.substr(behind)))) return std::nullopt;
    if (left > 0) {
      const size_t before = last_character(text.substr(0, left));
      if (character_length(text.substr(before, 4)) != left - before) return std::nullopt;
      if (changed_together_.contains(code_point(text.substr(before)), here)) return std::nullopt;
    }
  }
  const std::optional<std::string> before = alone(left_character), after = alone(right_character);
  if (!before || !after) return std::nullopt;
  if (removes_spaces_ && before->ends_with(space_)) return std::nullopt;
  return Seam{.left = code_point(std::string_view(*before).substr(last_character(*before))),
              .right = code_point(*after)};
}

}  // namespace terrace::data
