// Character lengths against the standard's table, and cuts that split no character.
#include "terrace/data/text/tokenizer/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace terrace::data {
namespace {

std::string encoded(uint32_t code) {
  const auto byte = [](uint32_t value) { return static_cast<char>(value); };
  if (code < 0x80) return {byte(code)};
  if (code < 0x800) return {byte(0xC0 | code >> 6), byte(0x80 | (code & 63))};
  if (code < 0x10000) return {byte(0xE0 | code >> 12), byte(0x80 | (code >> 6 & 63)), byte(0x80 | (code & 63))};
  return {byte(0xF0 | code >> 18), byte(0x80 | (code >> 12 & 63)), byte(0x80 | (code >> 6 & 63)),
          byte(0x80 | (code & 63))};
}

TEST(Utf8, EveryCodePointButSurrogatesIsACharacter) {
  for (uint32_t code = 0; code < 0x110000; ++code) {
    const bool surrogate = code >= 0xD800 && code < 0xE000;
    const std::string text = encoded(code);
    ASSERT_EQ(character_length(text), surrogate ? 0 : text.size()) << std::hex << code;
  }
  EXPECT_EQ(character_length(encoded(0x110000)), 0u);
}

TEST(Utf8, OverlongTruncatedAndStrayBytesAreNone) {
  for (const char* text : {"", "\x80", "\xC0\xAF", "\xC1\x81", "\xE0\x80\xAF", "\xF0\x80\x80\xAF", "\xE2\x96", "\xC3",
                           "\xC3(", "\xF5\x80\x80\x80", "\xFF", "\xE2\x28\xA1"}) {
    EXPECT_EQ(character_length(text), 0u) << text;
  }
}

TEST(Utf8, WholeCharactersLeavesAnUnfinishedCharacterBehind) {
  const std::string text = "a\xC3\xA9\xE2\x96\x81\xF0\x9F\x98\x80";  // ends of characters at 1, 3, 6, 10
  for (const auto& [size, whole] :
       {std::pair{1, 1}, {2, 1}, {3, 3}, {4, 3}, {5, 3}, {6, 6}, {7, 6}, {9, 6}, {10, 10}}) {
    EXPECT_EQ(whole_characters(text.substr(0, static_cast<size_t>(size))), static_cast<size_t>(whole)) << size;
  }
  EXPECT_EQ(whole_characters(""), 0u);
  // Nothing can complete these, so they stay.
  EXPECT_EQ(whole_characters("\x80\x80\x80\x80"), 4u);
}

}  // namespace
}  // namespace terrace::data
