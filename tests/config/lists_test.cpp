// Lists of strings and of durations and small tables: what is written is read back exactly, and mistakes are named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "terrace/config/domain.h"

namespace terrace::config {
namespace {

using ::testing::HasSubstr;

// The problem with a value; "" if it was read.
template <typename Domain, typename Value>
std::string problem_of(const Domain& domain, const std::string& toml, Value& value) {
  const toml::table table = toml::parse("value = " + toml);
  return domain.read(*table.get("value"), value);
}

template <typename Domain, typename Value>
void expect_read_back(const Domain& domain, const Value& value) {
  Value again;
  ASSERT_EQ(problem_of(domain, toml_text(value), again), "") << toml_text(value);
  EXPECT_EQ(again, value);
}

TEST(Lists, ReadBackExactly) {
  expect_read_back(Texts{}, std::vector<std::string>{"t2m", "a \"b\"", "ü, [x]"});
  expect_read_back(Texts{.may_be_empty = true}, std::vector<std::string>{});
  expect_read_back(Durations{}, std::vector<double>{21600, 0.1, 1e-300 * 1e300, 1.0 / 3});
  expect_read_back(NumbersByName{}, NamedNumbers{{"t2m", 1.0 / 3}, {"z.500", 1e-17}, {"with \"quotes\"", 2}});
  expect_read_back(NumbersByName{}, NamedNumbers{});
  expect_read_back(SizesByName{}, Sizes{{"atoms", 2048}, {"edges of \"b\"", 1L << 60}});
}

TEST(Lists, ReadDurationsInEveryForm) {
  std::vector<double> seconds;
  EXPECT_EQ(problem_of(Durations{}, "[\"6h\", \"1d\", 30, \"1h30m\"]", seconds), "");
  EXPECT_EQ(seconds, (std::vector<double>{21600, 86400, 30, 5400}));
  EXPECT_THAT(problem_of(Durations{}, "[\"6h\", \"soon\"]", seconds),
              HasSubstr("has \"soon\" at place 2, which must be"));
  EXPECT_THAT(problem_of(Durations{}, "[]", seconds), HasSubstr("must not be empty"));
}

TEST(Lists, NameUnknownAndRepeatedStrings) {
  const Texts variables{.words = {"temperature", "pressure"}};
  std::vector<std::string> values;
  EXPECT_THAT(problem_of(variables, "[\"temperatur\"]", values), HasSubstr("did you mean \"temperature\"?"));
  EXPECT_THAT(problem_of(variables, "[\"xyzzy\"]", values), HasSubstr("is none of \"temperature\" or \"pressure\""));
  EXPECT_THAT(problem_of(variables, "[\"pressure\", \"pressure\"]", values),
              HasSubstr("at place 2, which stands there twice"));
  EXPECT_THAT(problem_of(variables, "\"pressure\"", values), HasSubstr("; write [\"pressure\"]"));
  EXPECT_THAT(problem_of(variables, "[3]", values), HasSubstr("has 3 at place 1"));
}

TEST(Lists, ReadSizesAsWholeNumbers) {
  const SizesByName budget{.number = {.least = 1}, .words = {"atoms", "edges"}};
  Sizes values;
  EXPECT_EQ(problem_of(budget, "{atoms = 2048}", values), "");
  EXPECT_EQ(values, (Sizes{{"atoms", 2048}}));
  EXPECT_THAT(problem_of(budget, "{atom = 1}", values), HasSubstr("did you mean \"atoms\"?"));
  EXPECT_THAT(problem_of(budget, "{edges = 0}", values), HasSubstr("has edges = 0, which must be"));
  EXPECT_THAT(problem_of(budget, "{edges = 0.5}", values), HasSubstr("has edges = 0.5, which must be"));
  EXPECT_EQ(values, (Sizes{{"atoms", 2048}}));
}

TEST(Lists, NameWhatIsWrongInATable) {
  const NumbersByName weights{.number = {.least = 0}, .words = {"temperature", "pressure"}};
  NamedNumbers values;
  EXPECT_EQ(problem_of(weights, "{temperature = 2, pressure = 0.5}", values), "");
  EXPECT_EQ(values, (NamedNumbers{{"pressure", 0.5}, {"temperature", 2}}));
  EXPECT_THAT(problem_of(weights, "{presure = 1}", values), HasSubstr("has presure, which is not known; did you mean"));
  EXPECT_THAT(problem_of(weights, "{pressure = -1}", values), HasSubstr("has pressure = -1, which must be"));
  EXPECT_THAT(problem_of(weights, "[1, 2]", values), HasSubstr("but is a list"));
  EXPECT_EQ(values.size(), 2u) << "a refused value changes nothing";
}

}  // namespace
}  // namespace terrace::config
