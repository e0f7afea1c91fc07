// Tests what of a text reaches a terminal.
#include "terrace/base/text/printable.h"

#include <gtest/gtest.h>

#include <string>

#include "terrace/base/terminal/log.h"

namespace terrace {
namespace {

using namespace std::string_literals;

TEST(Printable, LeavesTextAsItIs) {
  for (const char* text : {"", "runs/tiny", "two\nlines", "±0.5 °C, ⣿ ┤, 日本語, 😀", "C:\\x1b"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, EscapesWhatTerminalsObey) {
  EXPECT_EQ(printable("\x1b[31mred\x07\b"), "\\x1b[31mred\\x07\\x08");
  EXPECT_EQ(printable("a\0b"s), "a\\x00b");
  EXPECT_EQ(printable("\t\r\x7f"), "\\t\\r\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m\xc2\xa0"),
            "\\u009b31m\xc2\xa0");  // the control sequence introducer in UTF-8, and a space that does not break
}

// The table of well-formed byte sequences in the Unicode standard (chapter 3, table 3-7) has the limits.
TEST(Printable, EscapesBytesOutsideOfUtf8) {
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            "\\x9b31m");
  EXPECT_EQ(printable("caf\xe9"), "caf\\xe9");
  EXPECT_EQ(printable("\xe2\x94"), "\\xe2\\x94");                             // cut short
  EXPECT_EQ(printable("\xc0\xaf\xe0\x9f\xbf"), "\\xc0\\xaf\\xe0\\x9f\\xbf");  // longer than needed
  EXPECT_EQ(printable("\xed\x9f\xbf"), "\xed\x9f\xbf");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(printable("\xf0\x8f\xbf\xbf"), "\\xf0\\x8f\\xbf\\xbf");
  EXPECT_EQ(printable("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"), "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(printable("\xff"), "\\xff");
}

TEST(Printable, LogLinesAreEscaped) {
  const auto before = spdlog::default_logger();
  testing::internal::CaptureStderr();
  start_log();
  log_info("reads {}", "a\x1b[2Jb");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("reads a\\x1b[2Jb\n"), std::string::npos);
  spdlog::set_default_logger(before);
}

}  // namespace
}  // namespace terrace
