// Names of environment variables become their values, and what is no name is refused.
#include "terrace/base/system/environment_variables.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <string>

#include "terrace/base/error.h"

namespace terrace {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& text) {
  try {
    with_variables(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(EnvironmentVariables, NamesBecomeValues) {
  ::setenv("TERRACE_TEST_USER", "maria", 1);
  EXPECT_EQ(with_variables("/mnt/bb/$TERRACE_TEST_USER"), "/mnt/bb/maria");
  EXPECT_EQ(with_variables("/mnt/${TERRACE_TEST_USER}s/x"), "/mnt/marias/x");
  EXPECT_EQ(with_variables("$TERRACE_TEST_USER/$TERRACE_TEST_USER"), "maria/maria");
  EXPECT_EQ(with_variables("/a$$b"), "/a$b");
  EXPECT_EQ(with_variables(""), "");
  ::unsetenv("TERRACE_TEST_USER");
}

TEST(EnvironmentVariables, WhatIsNoNameIsRefused) {
  EXPECT_THAT(refusal("/mnt/$TERRACE_NO_SUCH/x"), HasSubstr("TERRACE_NO_SUCH, which the environment does not have"));
  for (const char* text : {"/mnt/$", "/mnt/$/x", "/mnt/${", "/mnt/${HOME", "/mnt/${}"}) {
    EXPECT_THAT(refusal(text), HasSubstr("write $$ for the sign itself")) << text;
  }
}

}  // namespace
}  // namespace terrace
