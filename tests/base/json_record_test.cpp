// Checks that records are written and read with the same keys, with a default for what is absent.
#include "terrace/base/text/json_record.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace terrace {
namespace {

std::string text_of_number(int64_t number) { return std::to_string(number); }
int64_t number_of(const Json& json) { return std::stoll(json.get<std::string>()); }

enum class Color { red, blue };
constexpr std::array<std::string_view, 2> color_words = {"red", "blue"};

struct Leaf {
  std::string name;
  std::optional<double> weight = {};
  bool operator==(const Leaf&) const = default;
};

struct Tree {
  Color color = Color::red;
  std::vector<Leaf> leaves = {};
  std::vector<std::optional<Leaf>> gaps = {};
  std::map<std::string, Leaf> named = {};
  std::optional<Leaf> top = {};
  std::string note = {};
  int64_t age = -1, height = 0;
  bool operator==(const Tree&) const = default;
};

void members_of(auto& json, MaybeConst<Leaf> auto& one) { json("name", one.name)("weight", one.weight); }

void members_of(auto& json, MaybeConst<Tree> auto& one) {
  json.word("color", one.color, color_words, "has a color")("leaves", one.leaves);
  json("gaps", one.gaps)("named", one.named);
  json.optional("top", one.top);
  json.optional("note", one.note);
  if (json.has("age", one.age >= 0)) json("age", one.age);
  json.object("sizes", [&](auto& sizes) { sizes.as("height", one.height, text_of_number, number_of); });
}

const char* const text_of_full = R"({"color":"blue","leaves":[{"name":"a","weight":0.5},{"name":"b","weight":null}],)"
                                 R"("gaps":[null,{"name":"f","weight":3.0}],"named":{"c":{"name":"d","weight":1.0}},)"
                                 R"("top":{"name":"e","weight":2.0},"note":"old","age":0,"sizes":{"height":"7"}})";
const char* const text_of_empty = R"({"color":"red","leaves":[],"gaps":[],"named":{},"sizes":{"height":"0"}})";

TEST(JsonRecord, IsReadAsItWasWritten) {
  const Tree full{.color = Color::blue,
                  .leaves = {{"a", 0.5}, {"b"}},
                  .gaps = {std::nullopt, Leaf{"f", 3.0}},
                  .named = {{"c", {"d", 1.0}}},
                  .top = Leaf{"e", 2.0},
                  .note = "old",
                  .age = 0,
                  .height = 7};
  EXPECT_EQ(json_of_record(full).dump(), text_of_full);
  EXPECT_EQ(record_of<Tree>(parse_json(text_of_full)), full);
  EXPECT_EQ(json_of_record(Tree{}).dump(), text_of_empty);
  EXPECT_EQ(record_of<Tree>(parse_json(text_of_empty)), Tree{});
}

TEST(JsonRecord, RefusesMissingKeysOtherTypesAndUnknownWords) {
  Json json = parse_json(text_of_full);
  json["unknown"] = 1;
  EXPECT_NO_THROW(record_of<Tree>(json));
  json["top"] = nullptr;
  EXPECT_THROW(record_of<Tree>(json), Json::exception);
  json.erase("top");
  json["note"] = 3;
  EXPECT_THROW(record_of<Tree>(json), Json::exception);
  json.erase("note");
  json["leaves"][0].erase("weight");
  EXPECT_THROW(record_of<Tree>(json), Json::exception);
  json["leaves"] = Json::array();
  EXPECT_EQ(record_of<Tree>(json).named.size(), 1);
  json["color"] = "green";
  try {
    record_of<Tree>(json);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "has a color \"green\"");
  }
}

}  // namespace
}  // namespace terrace
