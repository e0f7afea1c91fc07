// Counts and enumerates points of small spaces with conditions, against all combinations of their values.
#include "terrace/search/proposals/grid.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/search/parameters.h"

namespace terrace::search {
namespace {

// The different points among all combinations of values.
std::set<Point> all_points(const std::vector<Parameter>& parameters) {
  const Existence existence(parameters);
  std::set<Point> points;
  Point point;
  const auto add = [&](const auto& self) -> void {
    if (point.size() == parameters.size()) {
      points.insert(existence.without_absent(point));
      return;
    }
    const Parameter& parameter = parameters[point.size()];
    for (uint64_t value = 0; value < *parameter.count(); ++value) {
      point.push_back(parameter.first() + static_cast<double>(value));
      self(self);
      point.pop_back();
    }
  };
  add(add);
  return points;
}

void expect_each_point_once(const std::vector<Parameter>& parameters, uint64_t count) {
  const Grid grid(parameters, Existence(parameters));
  ASSERT_EQ(grid.size(), count);
  std::set<Point> points;
  for (uint64_t i = 0; i < count; ++i) points.insert(grid.point(i));
  EXPECT_EQ(points, all_points(parameters));
  EXPECT_EQ(points.size(), count);
}

TEST(Grid, CountsWhatDiffersOnlyInParametersThatDoNotExistOnce) {
  const Condition interleaved{"schedule", {"interleaved"}};
  // 3 * (2 + 4): chunks has a value only with one of the three schedules.
  expect_each_point_once({integers("chunks", 2, 5, {interleaved}), words("schedule", {"1f1b", "interleaved", "gpipe"}),
                          integers("x", 0, 2)},
                         18);
}

TEST(Grid, FollowsConditionsUponConditionalParameters) {
  // a = 0: 1 point; a = 1: b = 0: 1, b = 1: c has 3 values; a = 2: as a = 1.
  expect_each_point_once({integers("c", 0, 2, {{"b", {int64_t{1}}}}),
                          integers("b", 0, 1, {{"a", {int64_t{1}, int64_t{2}}}}), integers("a", 0, 2)},
                         1 + 2 * (1 + 3));
  // d needs both b and e.
  expect_each_point_once({integers("a", 0, 1), integers("b", 0, 1, {{"a", {int64_t{1}}}}), integers("e", 0, 2),
                          integers("d", 0, 4, {{"b", {int64_t{0}}}, {"e", {int64_t{2}}}})},
                         // These are without b: a = 0, 3 of e. b = 0: e = 0, 1, or 2 with 5 of d. b = 1: 3 of e.
                         3 + 7 + 3);
}

TEST(Grid, JoinsBranchesThatAreLargeWithoutEnumeratingThem) {
  std::vector<Parameter> parameters = {words("kind", {"a", "b"})};
  for (const char* kind : {"a", "b"}) {
    for (int i = 0; i < 5; ++i) parameters.push_back(integers(kind + std::to_string(i), 1, 1000, {{"kind", {kind}}}));
  }
  for (int i = 0; i < 10; ++i) {  // flags with a parameter each
    const std::string flag = "flag" + std::to_string(i);
    parameters.push_back(words(flag, {false, true}));
    parameters.push_back(integers("of_" + flag, 1, 2, {{flag, {true}}}));
  }
  const Grid grid(parameters, Existence(parameters));
  const auto large = static_cast<uint64_t>(2 * std::pow(1000, 5));
  EXPECT_EQ(grid.size(), std::nullopt) << "2e15 * 3^10 is above 2^62";
  parameters.resize(parameters.size() - 14);
  const Grid smaller(parameters, Existence(parameters));
  ASSERT_EQ(smaller.size(), large * 27);
  const Existence existence(parameters);
  for (const uint64_t index : {uint64_t{0}, large, large * 27 - 1}) {
    const Point point = smaller.point(index);
    EXPECT_EQ(existence.without_absent(point), point);
  }
}

TEST(Grid, InfiniteWhereARealParameterMayExist) {
  const std::vector<Parameter> parameters = {
      words("kind", {"a", "b"}), {.name = "x", .type = Parameter::Type::real, .high = 1, .when = {{"kind", {"a"}}}}};
  EXPECT_EQ(Grid(parameters, Existence(parameters)).size(), std::nullopt);
}

TEST(Grid, GivesUpCountingWhereConditionsNameTooManyCombinations) {
  const std::vector<Parameter> parameters = {integers("a", 1, 1e9), integers("b", 0, 1, {{"a", {int64_t{7}}}})};
  EXPECT_EQ(Grid(parameters, Existence(parameters)).size(), std::nullopt);
}

}  // namespace
}  // namespace terrace::search
