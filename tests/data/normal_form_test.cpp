// Normal form C: what is composed, what is left alone, and bytes outside of UTF-8. tests/data/byte_pair_test.cpp holds
// it against the tokenizers package.
#include "terrace/data/text/tokenizer/sentencepiece/normal_form.h"

#include <gtest/gtest.h>

namespace terrace::data {
namespace {

std::string composed(std::string_view text) {
  std::string buffer;
  return std::string(to_normal_form_c(text, buffer));
}

TEST(NormalForm, CharactersAreComposedWithTheirMarks) {
  EXPECT_EQ(composed("cafe\u0301 e\u0301"), "caf\u00E9 \u00E9");
  EXPECT_EQ(composed("\u1100\u1161\u11A8"), "\uAC01");                  // three letters of Hangul
  EXPECT_EQ(composed("\uAC00\u11A8 \uAC00"), "\uAC01 \uAC00");          // a syllable and one more letter
  EXPECT_EQ(composed("\u212B \u2126"), "\u00C5 \u03A9");                // angstrom and ohm signs
  EXPECT_EQ(composed("a\u0301\u0323"), "\u1EA1\u0301");                 // the dot below comes first
  EXPECT_EQ(composed("\u0958"), "\u0915\u093C");                        // excluded from composition
  EXPECT_EQ(composed("\uFB01 \u00BD \uFF21"), "\uFB01 \u00BD \uFF21");  // compatibility characters stay
  EXPECT_EQ(composed("\u0301"), "\u0301");
}

TEST(NormalForm, TextThatStaysIsNotCopied) {
  for (const std::string_view text :
       {"", "plain", "caf\u00E9 \u6771\u4EAC \U0001F600", "\uAC00\uAC01", "\u0301 \u0958"}) {
    std::string buffer;
    const std::string_view same = to_normal_form_c(text, buffer);
    EXPECT_EQ(same.data() == text.data(), !text.ends_with("\u0958")) << text;
  }
}

TEST(NormalForm, BytesOutsideOfUtf8AreKeptAndEndWhatIsComposed) {
  EXPECT_EQ(composed("e\xCC\xFF\u0301"), "e\xCC\xFF\u0301");
  EXPECT_EQ(composed("\xFF\xFE"
                     "e\u0301\xCC"),
            "\xFF\xFE\u00E9\xCC");
  EXPECT_EQ(composed("\x81\u0301"), "\x81\u0301");
  EXPECT_EQ(composed("\xED\xA0\x80"
                     "e\u0301"),
            "\xED\xA0\x80\u00E9");  // a surrogate
}

}  // namespace
}  // namespace terrace::data
