// Checks the limit of nesting where JSON is read: brackets in strings do not count, and no text is too strange.
#include "terrace/base/text/json.h"

#include <gtest/gtest.h>

#include <string>

namespace terrace {
namespace {

std::string nested(int depth, char open, char close) {
  return std::string(static_cast<size_t>(depth), open) + std::string(static_cast<size_t>(depth), close);
}

TEST(ParseJson, ReadsUpTo64LevelsAndRefusesMore) {
  EXPECT_EQ(parse_json(nested(64, '[', ']')).dump(), nested(64, '[', ']'));
  EXPECT_THROW(parse_json(nested(65, '[', ']')), Json::exception);
  EXPECT_THROW(parse_json(nested(1'000'000, '[', ']')), Json::exception);
  EXPECT_TRUE(parse_json_or_discard(nested(65, '[', ']')).is_discarded());
  EXPECT_TRUE(parse_json_or_discard("{").is_discarded());
  EXPECT_EQ(parse_json_or_discard("{\"a\": 1}").at("a"), 1);
}

TEST(ParseJson, CountsNoBracketsInStrings) {
  EXPECT_FALSE(is_nested_too_deep('"' + std::string(100, '[') + '"'));
  EXPECT_FALSE(is_nested_too_deep(R"(["\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["])"));
  EXPECT_TRUE(is_nested_too_deep(R"("\\")" + std::string(65, '{')));
  EXPECT_FALSE(is_nested_too_deep(R"("ends in a backslash \)"));
}

}  // namespace
}  // namespace terrace
