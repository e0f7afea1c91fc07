// The text of the named field of a line, and the problems of malformed lines.
#include "terrace/data/text/json_lines.h"

#include <gtest/gtest.h>

namespace terrace::data {
namespace {

std::string text_of(std::string_view line, std::string_view field = "text") {
  std::string text;
  const auto problem = extract_text(line, field, text);
  EXPECT_FALSE(problem) << *problem;
  return text;
}

std::string problem_of(std::string_view line) {
  std::string text;
  return extract_text(line, "text", text).value_or("");
}

TEST(JsonLines, TheFieldIsUnescaped) {
  EXPECT_EQ(text_of(R"({"text": "a\nb\t\"c\" \u00e9 \ud83d\ude00 \u0000."})"),
            std::string("a\nb\t\"c\" \xC3\xA9 \xF0\x9F\x98\x80 \0.", 18));
  EXPECT_EQ(text_of(R"({"id": 1, "body": "b", "text": "t"})", "body"), "b");
  EXPECT_EQ(text_of(R"({"text": ""})"), "");
}

TEST(JsonLines, OnlyTheObjectsOwnFieldCounts) {
  EXPECT_EQ(text_of(R"({"meta": {"text": "inner", "more": [{"text": "deep"}]}, "text": "own", "tail": {"text": "x"}})"),
            "own");
  EXPECT_EQ(text_of(R"({"text": "first", "text": "last"})"), "last");
}

TEST(JsonLines, ADotNamesAFieldOfANestedObject) {
  EXPECT_EQ(
      text_of(R"({"text": "own", "meta": {"id": {"text": "deep"}, "text": "t"}, "x": {"text": "y"}})", "meta.text"),
      "t");
  EXPECT_EQ(text_of(R"({"a": {"a": {"a": "deep"}, "b": "b"}})", "a.a.a"), "deep");
  EXPECT_EQ(text_of(R"({"a": {"c": 1}, "a": {"b": "second"}})", "a.b"), "second");
  EXPECT_EQ(text_of(R"({"meta.text": "literal"})", "meta.text"), "literal");
  std::string text;
  for (const char* line : {R"({"meta": [{"text": "in a list"}]})", R"({"meta": "m", "text": "t"})",
                           R"({"x": {"meta": {"text": "too deep"}}})", R"({"meta": {"x": {"text": "too deep"}}})",
                           R"({"meta": 1, "x": {"text": "elsewhere"}})"}) {
    EXPECT_EQ(extract_text(line, "meta.text", text).value_or(""), "no field \"meta.text\"") << line;
  }
  EXPECT_EQ(extract_text(R"({"meta": {"text": 7}})", "meta.text", text).value_or(""),
            "field \"meta.text\" is a number instead of a string");
}

TEST(JsonLines, NumbersThatPythonWritesDoNoHarm) {
  EXPECT_EQ(text_of(R"({"text":"a","score":NaN})"), "a");
  EXPECT_EQ(text_of(R"({"x": [-Infinity, Infinity ,NaN], "y": {"z": -NaN}, "text": "says: NaN, -Infinity"})"),
            "says: NaN, -Infinity");
  EXPECT_EQ(text_of(R"({"x": NaN, "text": "[NaN,\"NaN,\\"})"), R"([NaN,"NaN,\)");
  EXPECT_EQ(problem_of(R"({"score": Infinity, "text": NaN})"), "field \"text\" is a number instead of a string");
  for (const char* line : {R"({"text": "a", "x": NaNs})", R"({"text": "a", "x": nan})", R"({"text": "a", NaN: 1})",
                           R"({"text": "a", "x": 1NaN})", R"({"text": "a", "x": NaN)", R"({"text": "a"} NaN)"}) {
    EXPECT_NE(problem_of(line).find("not JSON at byte"), std::string::npos) << line;
  }
}

TEST(JsonLines, MalformedLinesSayWhy) {
  EXPECT_NE(problem_of(R"({"text": "a)").find("not JSON at byte"), std::string::npos);
  EXPECT_NE(problem_of(R"({"text": "a"} x)").find("not JSON at byte"), std::string::npos);
  EXPECT_NE(problem_of("{\"text\": \"\xFF\"}").find("not JSON at byte"), std::string::npos);
  EXPECT_NE(problem_of(R"({"text": "\ud800"})").find("not JSON at byte"), std::string::npos);
  EXPECT_EQ(problem_of(R"({"title": "a"})"), "no field \"text\"");
  EXPECT_EQ(problem_of(R"({"meta": {"text": "a"}})"), "no field \"text\"");
  EXPECT_EQ(problem_of(R"({"text": 7})"), "field \"text\" is a number instead of a string");
  EXPECT_EQ(problem_of(R"({"text": ["a"]})"), "field \"text\" is an array instead of a string");
  EXPECT_EQ(problem_of(R"({"text": null})"), "field \"text\" is null instead of a string");
  EXPECT_EQ(problem_of(R"(["text", "a"])"), "an array instead of an object");
  EXPECT_EQ(problem_of(R"("text")"), "a string instead of an object");
}

TEST(JsonLines, DeepNestingTakesNoStack) {
  const std::string deep =
      R"({"x": )" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + R"(, "text": "t"})";
  EXPECT_EQ(text_of(deep), "t");
}

}  // namespace
}  // namespace terrace::data
