// Spaces with parameters that exist only under a condition, and the methods that search them.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "terrace/base/error.h"
#include "terrace/search/proposals/optimizer.h"
#include "terrace/search/proposals/predicted_proposals.h"
#include "terrace/search/study/space.h"

namespace terrace::search {
namespace {

using Type = Parameter::Type;
using Texts = std::vector<std::string>;

const PhiloxKey key = stream_key(1, "points");

// 2 * (1 + 3) points before constraints: layout.chunks exists only with one of the two schedules.
Space schedules(std::vector<Expression> constraints = {}) {
  return {{{.name = "layout.schedule", .type = Type::categorical, .values = {"1f1b", "interleaved"}},
           {.name = "layout.chunks",
            .type = Type::ordered,
            .values = {int64_t{2}, int64_t{3}, int64_t{4}},
            .when = {{"layout.schedule", {"interleaved"}}}},
           {.name = "layout.tensor", .type = Type::integer, .low = 1, .high = 2}},
          {{"pieces", Expression("layout.chunks * 4")}, {"model.layers", Expression("pieces * 2")}},
          std::move(constraints),
          {{"model.heads", 6}}};
}

const Point plain = {0, absent, 1}, interleaved = {1, 2, 1};

TEST(ConditionalSpace, LeavesOutWhatDoesNotExist) {
  const Space space = schedules();
  EXPECT_EQ(space.settings(plain), (Texts{"layout.schedule=\"1f1b\"", "layout.tensor=1"}));
  EXPECT_EQ(space.settings(interleaved),
            (Texts{"layout.schedule=\"interleaved\"", "layout.chunks=4", "layout.tensor=1", "model.layers=32"}));
  EXPECT_EQ(space.text_of(plain, "layout.chunks"), "");
  EXPECT_EQ(space.text_of(plain, "pieces"), "");
  EXPECT_EQ(space.text_of(interleaved, "pieces"), "16");
  EXPECT_TRUE(std::isnan(space.number(plain, "layout.chunks")));
  EXPECT_TRUE(std::isnan(space.number(plain, "model.layers")));
}

TEST(ConditionalSpace, ConstraintsApplyToExistingParametersOnly) {
  const Space space = schedules({Expression("layout.chunks < 4"), Expression("model.layers < 30 or layout.tensor == 2"),
                                 Expression("layout.tensor < 2")});
  EXPECT_TRUE(space.holds_constraints(plain));
  EXPECT_FALSE(space.holds_constraints(interleaved));
  EXPECT_TRUE(space.holds_constraints({1, 1, 1}));
  EXPECT_EQ(space.held_constraints({0, absent, 2}), (std::vector<bool>{true, true, false}));
}

TEST(ConditionalSpace, ReadsBackEmptyCells) {
  const Space space = schedules();
  EXPECT_EQ(space.texts(plain), (Texts{"1f1b", "", "1"}));
  for (uint64_t i = 0; i < *space.grid_size(); ++i) {
    EXPECT_EQ(space.point_of(space.texts(space.grid_point(i))), space.grid_point(i));
  }
  EXPECT_EQ(space.point_of({"1f1b", "nan", "1"}), plain) << "as DeepHyper writes";
  EXPECT_EQ(space.point_of({"1f1b", "2", "1"}), std::nullopt) << "a value where the parameter does not exist";
  EXPECT_EQ(space.point_of({"interleaved", "", "1"}), std::nullopt) << "no value where it exists";
}

TEST(ConditionalSpace, ScalesWhatDoesNotExistToOneCoordinate) {
  const Space space({{.name = "kind", .type = Type::categorical, .values = {"a", "b"}},
                     {.name = "x", .type = Type::real, .low = 1, .high = 100, .log = true, .when = {{"kind", {"a"}}}},
                     {.name = "word", .type = Type::categorical, .values = {"u", "v"}, .when = {{"kind", {"a"}}}}},
                    {}, {}, {});
  EXPECT_EQ(space.scaled({1, absent, absent}), (Point{1, 0.5, -1}));
}

TEST(ConditionalSpace, DrawsEveryValueOfTheConditionAsOftenAndThenEachPointOnce) {
  std::vector<Parameter> parameters = schedules().parameters();
  parameters[2].high = 100;
  const Space space(parameters, {}, {}, {});
  const uint64_t size = *space.grid_size();
  ASSERT_EQ(size, 400);
  std::map<double, int> schedule_counts;
  std::set<Point> in_turn;
  for (uint64_t i = 0; i < 2 * size; ++i) {
    const Point point = *space.draw(key, i);
    EXPECT_TRUE(space.point_of(space.texts(point)).has_value());
    if (i < size) {
      ++schedule_counts[point[0]];
    } else {
      EXPECT_TRUE(in_turn.insert(point).second);
    }
  }
  // Five standard deviations of a binomial distribution.
  EXPECT_NEAR(schedule_counts[0], 200, 50);
  EXPECT_EQ(in_turn.size(), size);
  EXPECT_EQ(space.draw(key, 2 * size), std::nullopt);
}

TEST(ConditionalSpace, NeighboursNeverChangeOnlyWhatDoesNotExist) {
  const Space space = schedules();
  std::set<Point> found, of_chunks;
  for (const Point& point : space.neighbours(plain, key)) {
    EXPECT_NE(point, plain);
    EXPECT_TRUE(space.point_of(space.texts(point)).has_value());
    if (point[0] == 0) found.insert(point);
    if (point[0] == 1) of_chunks.insert(point);
  }
  EXPECT_EQ(found, (std::set<Point>{{0, absent, 2}}));
  EXPECT_GT(of_chunks.size(), 1) << "several of the values that come to exist";
  found.clear();
  for (const Point& point : space.neighbours(interleaved, key)) found.insert(point);
  EXPECT_EQ(found, (std::set<Point>{plain, {1, 1, 1}, {1, 2, 2}}));
}

class Conditional : public testing::TestWithParam<Method> {};
INSTANTIATE_TEST_SUITE_P(Methods, Conditional,
                         testing::Values(Method::bayesian, Method::random, Method::exhaustive,
                                         Method::successive_halving));

// 4 * (1 + 3 + 1 * 3) points: `deep` exists only under a condition upon `chunks`, which exists only under another.
Space deep_space() {
  return {{{.name = "schedule", .type = Type::categorical, .values = {"1f1b", "interleaved", "zb"}},
           {.name = "chunks", .type = Type::integer, .low = 2, .high = 4, .when = {{"schedule", {"interleaved"}}}},
           {.name = "deep", .type = Type::categorical, .values = {"x", "y", "z"}, .when = {{"chunks", {int64_t{3}}}}},
           {.name = "tensor", .type = Type::integer, .low = 1, .high = 4}},
          {},
          {},
          {}};
}

TEST_P(Conditional, SearchTriesEachPointOnce) {
  const Space space = deep_space();
  ASSERT_EQ(space.grid_size(), 4 * (1 + 1 + 2 + 3));
  Optimizer optimizer(space, {.method = GetParam()});
  std::set<Point> seen;
  while (const std::optional<Point> point = optimizer.ask()) {
    EXPECT_TRUE(seen.insert(*point).second);
    EXPECT_TRUE(space.point_of(space.texts(*point)).has_value()) << "a value where the parameter does not exist";
    const double objective = (*point)[3] + ((*point)[0] == 1 ? (*point)[1] : 0);
    optimizer.tell(*point, (*point)[3] > 3 ? Objective() : Objective(objective), "oom");
  }
  EXPECT_EQ(seen.size(), space.grid_size());
}

// The best point is one of 10,010 and has a value of a parameter that exists with one of the two kinds only.
TEST(ConditionalModel, FindsTheBestValueOfWhatExistsUnderACondition) {
  const Space space({{.name = "kind", .type = Type::categorical, .values = {"plain", "tuned"}},
                     {.name = "x", .type = Type::integer, .low = 0, .high = 9},
                     {.name = "y", .type = Type::integer, .low = 0, .high = 999, .when = {{"kind", {"tuned"}}}}},
                    {}, {}, {});
  Optimizer optimizer(space, {.method = Method::bayesian});
  double best = -1e9;
  for (int trial = 0; trial < 60; ++trial) {
    const Point point = *optimizer.ask();
    const double at = point[0] == 0 ? 0 : 1 - std::abs(point[2] - 300) / 100;
    const double objective = at - std::abs(point[1] - 4);
    best = std::max(best, objective);
    optimizer.tell(point, objective);
  }
  EXPECT_GT(best, 0.8) << "y within 20 of 300";
}

TEST(ConditionalSpace, PredictedPointsAreProposedOnce) {
  // Too many points to predict them all, so that random ones are drawn, in which some come again.
  std::vector<Parameter> parameters = deep_space().parameters();
  parameters[3].high = 10'000;
  const Space space(parameters, {}, {}, {});
  ASSERT_GT(*space.grid_size(), 50'000);
  const auto predict = [](const Point& point) { return std::optional(point[3]); };
  std::vector<PredictedPoint> points = predict_points(space, 1, predict, {}).points;
  std::set<Point> seen;
  for (const PredictedPoint& one : points) EXPECT_TRUE(seen.insert(one.point).second);
  PredictedProposals proposals(space, std::move(points), true);
  seen.clear();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(seen.insert(*proposals.ask()).second);
}

}  // namespace
}  // namespace terrace::search
