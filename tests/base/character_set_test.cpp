// Tests which locales have UTF-8.
#include "terrace/base/text/character_set.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

namespace terrace {
namespace {

// Sets the three variables; empty ones are not set.
bool is_utf8_with(const char* all, const char* characters, const char* language) {
  const std::pair<const char*, const char*> values[] = {{"LC_ALL", all}, {"LC_CTYPE", characters}, {"LANG", language}};
  std::map<std::string, std::string> before;
  for (const auto& [name, value] : values) {
    if (const char* old = std::getenv(name)) before[name] = old;
    if (*value != '\0') {
      ::setenv(name, value, 1);
    } else {
      ::unsetenv(name);
    }
  }
  const bool is_utf8 = locale_is_utf8();
  for (const auto& [name, _] : values) ::unsetenv(name);
  for (const auto& [name, value] : before) ::setenv(name.c_str(), value.c_str(), 1);
  return is_utf8;
}

TEST(CharacterSet, IsThatOfTheFirstVariableThatIsSet) {
  EXPECT_TRUE(is_utf8_with("", "", "en_US.UTF-8"));
  EXPECT_TRUE(is_utf8_with("", "", "C.utf8"));
  EXPECT_TRUE(is_utf8_with("", "UTF-8", ""));
  EXPECT_TRUE(is_utf8_with("ca_ES.UTF-8@valencia", "", "C"));
  EXPECT_FALSE(is_utf8_with("C", "en_US.UTF-8", "en_US.UTF-8"));
  EXPECT_FALSE(is_utf8_with("", "de_DE.ISO-8859-1", "de_DE.UTF-8"));
  EXPECT_FALSE(is_utf8_with("", "", "POSIX"));
  EXPECT_FALSE(is_utf8_with("", "", "de_DE"));
  EXPECT_FALSE(is_utf8_with("", "", ""));
}

}  // namespace
}  // namespace terrace
