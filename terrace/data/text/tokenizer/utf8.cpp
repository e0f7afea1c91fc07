// Checks UTF-8 by comparisons with the table of well-formed byte sequences.
#include "terrace/data/text/tokenizer/utf8.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace terrace::data {
namespace {

// Returns the bytes that a lead byte announces; 0 for a byte that leads nothing.
size_t announced_length(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

// The second byte carries the limits that exclude overlong forms, surrogates and values past U+10FFFF.
bool second_byte_fits(uint8_t lead, uint8_t second) {
  if (lead == 0xE0) return second >= 0xA0 && second <= 0xBF;
  if (lead == 0xED) return second >= 0x80 && second <= 0x9F;
  if (lead == 0xF0) return second >= 0x90 && second <= 0xBF;
  if (lead == 0xF4) return second >= 0x80 && second <= 0x8F;
  return second >= 0x80 && second <= 0xBF;
}

// Unicode's spaces outside of ASCII.
constexpr std::array<std::string_view, 8> wide_spaces = {"\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80",
                                                         "\xE2\x80\xA8", "\xE2\x80\xA9", "\xE2\x80\xAF",
                                                         "\xE2\x81\x9F", "\xE3\x80\x80"};

}  // namespace

size_t character_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const size_t length = announced_length(byte(0));
  if (length <= 1) return length;
  if (text.size() < length || !second_byte_fits(byte(0), byte(1))) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

size_t valid_length(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    if (static_cast<uint8_t>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const size_t length = character_length(text.substr(at, 4));
    if (length == 0) break;
    at += length;
  }
  return at;
}

size_t whole_characters(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<uint8_t>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    return announced_length(byte) > back ? text.size() - back : text.size();
  }
  return text.size();
}

size_t last_character(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && text.size() - begin < 4 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
  return begin;
}

bool ends_with_space(std::string_view text) {
  if (static_cast<uint8_t>(text.back()) < 0x80)
    return text.back() == ' ' || (text.back() >= '\t' && text.back() <= '\r');
  // U+2000 to U+200A.
  if (text.size() >= 3 && text.substr(text.size() - 3, 2) == "\xE2\x80" && text.back() <= '\x8A') return true;
  return std::any_of(wide_spaces.begin(), wide_spaces.end(), [&](auto space) { return text.ends_with(space); });
}

bool starts_with_space(std::string_view text) {
  const size_t length = character_length(text.substr(0, 4));
  return length > 0 && ends_with_space(text.substr(0, length));
}

size_t cut_at_blank(std::string_view text) {
  for (char blank : {'\n', ' '}) {
    const size_t at = text.rfind(blank);
    if (at != std::string_view::npos && at > text.size() / 2) return at;
  }
  const size_t whole = whole_characters(text);
  return whole > 0 ? whole : text.size();
}

}  // namespace terrace::data
