// Normalises the few places where text may change, with the tables of libutf8proc.
#include "terrace/data/text/tokenizer/sentencepiece/normal_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/data/text/tokenizer/utf8.h"

namespace terrace::data {
namespace {

constexpr auto form = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

// The first byte of U+0300; no character before it changes or is composed with the one before.
constexpr uint8_t first_lead = 0xCC;

struct Character {
  utf8proc_int32_t code = 0;
  size_t bytes = 0;  // 0: no character of UTF-8
};

Character character_at(std::string_view text) {
  Character character{.bytes = character_length(text.substr(0, 4))};
  if (character.bytes > 0) {
    utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                     static_cast<utf8proc_ssize_t>(character.bytes), &character.code);
  }
  return character;
}

// Whether the character can neither change, nor change places with its neighbours, nor be composed with the one before.
bool is_stable(utf8proc_int32_t code) {
  constexpr uint16_t none = UINT16_MAX, composed_with_first = 0x8000;
  const bool joins_syllable = (code >= 0x1161 && code <= 0x1175) || (code >= 0x11A8 && code <= 0x11C2);
  const utf8proc_property_t& property = *utf8proc_get_property(code);
  const bool decomposes = property.decomp_seqindex != none && property.decomp_type == 0;
  const bool composes = property.comb_index != none && property.comb_index >= composed_with_first;
  return property.combining_class == 0 && !decomposes && !composes && !joins_syllable;
}

size_t begin_of_character_before(std::string_view text, size_t at) {
  for (size_t back = 1; back <= std::min<size_t>(4, at); ++back) {
    if (character_length(text.substr(at - back, back)) == back) return at - back;
  }
  return at;
}

// Decomposes, orders the marks and composes. The library's own ordering takes quadratic time in the number of marks.
// The library's composition loses U+11A7 behind a syllable of Hangul, which is no letter that a run can have behind its
// first.
std::string normalised(std::string_view run) {
  std::vector<utf8proc_int32_t> codes;
  int last_boundary = UTF8PROC_BOUNDCLASS_START;
  while (!run.empty()) {
    const Character character = character_at(run);
    std::array<utf8proc_int32_t, 32> parts{};
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(character.code, parts.data(), parts.size(),
                                static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE), &last_boundary);
    TERRACE_CHECK(count >= 0 && count <= static_cast<utf8proc_ssize_t>(parts.size()), "libutf8proc: {}", count);
    codes.insert(codes.end(), parts.begin(), parts.begin() + count);
    run.remove_prefix(character.bytes);
  }
  const auto mark_class = [](utf8proc_int32_t code) { return utf8proc_get_property(code)->combining_class; };
  const auto is_mark = [&](utf8proc_int32_t code) { return mark_class(code) != 0; };
  for (auto begin = codes.begin(); begin != codes.end();) {
    begin = std::find_if(begin, codes.end(), is_mark);
    const auto end = std::find_if_not(begin, codes.end(), is_mark);
    std::stable_sort(begin, end, [&](auto a, auto b) { return mark_class(a) < mark_class(b); });
    begin = end;
  }
  const utf8proc_ssize_t length =
      utf8proc_normalize_utf32(codes.data(), static_cast<utf8proc_ssize_t>(codes.size()), form);
  TERRACE_CHECK(length >= 0, "libutf8proc: {}", length);
  std::string text;
  for (utf8proc_ssize_t i = 0; i < length; ++i) {
    std::array<utf8proc_uint8_t, 4> bytes{};
    const utf8proc_ssize_t size = utf8proc_encode_char(codes[static_cast<size_t>(i)], bytes.data());
    text.append(bytes.begin(), bytes.begin() + size);
  }
  return text;
}

}  // namespace

std::string_view to_normal_form_c(std::string_view text, std::string& buffer) {
  buffer.clear();
  size_t taken = 0;  // of the text, in the buffer
  for (size_t at = 0;;) {
    const auto is_high = [](char byte) { return static_cast<uint8_t>(byte) >= first_lead; };
    at = static_cast<size_t>(std::find_if(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), is_high) -
                             text.begin());
    if (at == text.size()) break;
    const Character first = character_at(text.substr(at));
    if (first.bytes == 0 || is_stable(first.code)) {
      at += std::max<size_t>(1, first.bytes);
      continue;
    }
    const size_t begin = begin_of_character_before(text, at);
    while (at < text.size() && is_high(text[at])) {
      const Character next = character_at(text.substr(at));
      if (next.bytes == 0 || is_stable(next.code)) break;
      at += next.bytes;
    }
    const std::string_view run = text.substr(begin, at - begin);
    const std::string changed = normalised(run);
    if (changed == run) continue;
    buffer += text.substr(taken, begin - taken);
    buffer += changed;
    taken = at;
  }
  if (taken == 0) return text;
  buffer += text.substr(taken);
  return buffer;
}

}  // namespace terrace::data
