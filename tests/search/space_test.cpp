// Draws, enumerates and scales points of small spaces.
#include "terrace/search/study/space.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "terrace/base/error.h"

namespace terrace::search {
namespace {

using Type = Parameter::Type;

const PhiloxKey key = stream_key(1, "points");

Space layouts() {
  return {{{.name = "layout.tensor", .type = Type::ordered, .values = {int64_t{1}, int64_t{2}, int64_t{4}}},
           {.name = "train.micro_batch", .type = Type::integer, .low = 4, .high = 6},
           {.name = "layout.sharding", .type = Type::categorical, .values = {"ddp", "zero1"}}},
          {{"data", Expression("8 / layout.tensor")},
           {"train.global_batch", Expression("train.micro_batch * data")},
           {"layout.sequence_parallel", Expression("layout.tensor > 1"), true}},
          {Expression("divides(layout.tensor, model.heads)")},
          {{"model.heads", 6}}};
}

TEST(Space, EnumeratesEachPointOnce) {
  const Space space = layouts();
  ASSERT_EQ(space.grid_size(), 18);
  std::set<Point> points, drawn;
  for (uint64_t i = 0; i < 18; ++i) {
    points.insert(space.grid_point(i));
    drawn.insert(*space.draw(key, i));
  }
  EXPECT_EQ(points.size(), 18);
  EXPECT_EQ(drawn, points);
  EXPECT_EQ(space.draw(key, 18), std::nullopt);
}

TEST(Space, HoldsConstraintsWithConstants) {
  const Space space = layouts();
  EXPECT_TRUE(space.holds_constraints({1, 4, 0}));   // 2 divides 6
  EXPECT_FALSE(space.holds_constraints({2, 4, 0}));  // 4 does not
}

TEST(Space, SetsKeysAndDerivesOthers) {
  const Space space = layouts();
  EXPECT_EQ(space.settings({1, 5, 1}),
            (std::vector<std::string>{"layout.tensor=2", "train.micro_batch=5", "layout.sharding=\"zero1\"",
                                      "train.global_batch=20", "layout.sequence_parallel=true"}));
  EXPECT_EQ(space.number({1, 5, 1}, "data"), 4);
  EXPECT_EQ(space.number({1, 5, 1}, "train.micro_batch"), 5);
}

TEST(Space, RefusesADerivedKeyWithoutAValue) {
  const Space space({{.name = "a", .type = Type::integer, .low = 0, .high = 1}}, {{"train.steps", Expression("8 / a")}},
                    {}, {});
  EXPECT_EQ(space.settings({1}), std::vector<std::string>{"train.steps=8"});
  try {
    space.settings({0});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "train.steps = \"8 / a\" has no value, such as after a division by 0");
  }
}

TEST(Space, ReadsBackTheTextsOfEachPoint) {
  const Space space({{.name = "a", .type = Type::integer, .low = -2, .high = 2},
                     {.name = "b", .type = Type::real, .low = 0, .high = 1},
                     {.name = "c", .type = Type::categorical, .values = {true, "x,y", 0.5, int64_t{3}}}},
                    {}, {}, {});
  EXPECT_EQ(space.grid_size(), std::nullopt);
  for (uint64_t i = 0; i < 100; ++i) {
    const Point point = *space.draw(key, i);
    EXPECT_EQ(space.point_of(space.texts(point)), point);
  }
  for (const std::vector<std::string>& texts : std::vector<std::vector<std::string>>{
           {"3", "0.5", "true"}, {"0.5", "0.5", "true"}, {"0", "nan", "true"}, {"0", "0.5", "x"}, {"", "0", "true"}}) {
    EXPECT_EQ(space.point_of(texts), std::nullopt) << texts[0] << " " << texts[1] << " " << texts[2];
  }
}

TEST(Space, DrawsEveryValueAsOften) {
  const Space space({{.name = "a", .type = Type::integer, .low = 1, .high = 4},
                     {.name = "b", .type = Type::real, .low = 1e-4, .high = 1, .log = true}},
                    {}, {}, {});
  constexpr int draws = 4000;
  std::map<double, int> counts;
  int below = 0;
  for (uint64_t i = 0; i < draws; ++i) {
    const Point point = *space.draw(key, i);
    ++counts[point[0]];
    if (point[1] < 1e-2) ++below;
    EXPECT_GE(point[1], 1e-4);
    EXPECT_LE(point[1], 1);
  }
  EXPECT_EQ(counts.size(), 4);
  // Five standard deviations of a binomial distribution.
  for (const auto& [value, count] : counts) EXPECT_NEAR(count, draws / 4, 5 * std::sqrt(draws * 0.25 * 0.75)) << value;
  EXPECT_NEAR(below, draws / 2, 5 * std::sqrt(draws * 0.25));
}

TEST(Space, NeighboursDifferInOneCoordinate) {
  const Space space = layouts();
  const Point here = {0, 5, 1};
  std::set<Point> found;
  for (const Point& point : space.neighbours(here, key)) {
    int differences = 0;
    for (size_t i = 0; i < here.size(); ++i) differences += point[i] != here[i] ? 1 : 0;
    EXPECT_EQ(differences, 1);
    EXPECT_TRUE(space.point_of(space.texts(point)).has_value());
    found.insert(point);
  }
  EXPECT_EQ(found, (std::set<Point>{{1, 5, 1}, {0, 4, 1}, {0, 6, 1}, {0, 5, 0}}));
}

TEST(Space, ScalesCoordinatesToTheUnitInterval) {
  const Space space = layouts();
  EXPECT_EQ(space.scaled({0, 4, 0}), (Point{0, 0, 0}));
  EXPECT_EQ(space.scaled({1, 6, 1}), (Point{0.5, 1, 1}));
  const Space rates({{.name = "rate", .type = Type::real, .low = 1, .high = 100, .log = true},
                     {.name = "fixed", .type = Type::integer, .low = 3, .high = 3}},
                    {}, {}, {});
  EXPECT_DOUBLE_EQ(rates.scaled({10, 3})[0], 0.5);
  EXPECT_EQ(rates.scaled({10, 3})[1], 0);
}

}  // namespace
}  // namespace terrace::search
