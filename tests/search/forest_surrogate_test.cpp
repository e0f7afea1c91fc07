// Learns from trials of which some fail.
#include "terrace/search/proposals/forest_surrogate.h"

#include <gtest/gtest.h>

#include "tests/search/line.h"

namespace terrace::search {
namespace {

void learn(ForestSurrogate& surrogate, double x, Objective objective) {
  surrogate.learn({x}, objective, objective ? "" : "oom");
}

TEST(ForestSurrogate, PromisesTheValueOfATrialThere) {
  const Space space = line();
  ForestSurrogate surrogate(space, 1);
  for (const double x : {0, 30, 70}) learn(surrogate, x, x + 1);
  surrogate.prepare({});
  for (const double x : {0, 30, 70}) EXPECT_DOUBLE_EQ(surrogate.promise({x}), x + 1);
}

TEST(ForestSurrogate, TakesTheWorstValueForTrialsThatFail) {
  const Space space = line();
  ForestSurrogate surrogate(space, 1);
  for (double x = 0; x <= 100; x += 10) learn(surrogate, x, x < 50 ? Objective(x - 7) : Objective());
  surrogate.prepare({});
  EXPECT_DOUBLE_EQ(surrogate.promise({80}), -7);
  EXPECT_DOUBLE_EQ(surrogate.promise({75}), -7);
  EXPECT_GT(surrogate.promise({38}), surrogate.promise({62}));
}

TEST(ForestSurrogate, PromisesTheSameEverywhereWhileAllFail) {
  const Space space = line();
  ForestSurrogate surrogate(space, 1);
  for (const double x : {0, 50}) learn(surrogate, x, {});
  surrogate.prepare({{70}});
  for (const double x : {0, 25, 70, 100}) EXPECT_EQ(surrogate.promise({x}), surrogate.promise({50}));
}

// A pending trial is taken for known also with one trial at a time under way.
TEST(ForestSurrogate, TakesAPendingTrialForKnown) {
  const Space space = line();
  ForestSurrogate finished(space, 1), pending(space, 1);
  // With 21 trials kappa is near 1.96, with 20 it is.
  for (size_t i = 0; i < 20; ++i) {
    const double x = i < 10 ? static_cast<double>(i) : static_cast<double>(100 - (19 - i));
    for (ForestSurrogate* one : {&finished, &pending}) learn(*one, x, i < 10 ? 0 : 10);
  }
  finished.prepare({});
  pending.prepare({{50}});
  EXPECT_GT(finished.promise({50}), 6) << "a mean of about 5 and a spread of 5";
  const double expected = pending.promise({50});
  EXPECT_LT(expected, finished.promise({50}) - 3);
  // The mean that was expected, which all trees now have there.
  EXPECT_GT(expected, 0);
  EXPECT_LT(expected, 10);
}

TEST(ForestSurrogate, LooksByTurnsWhereItKnowsLittleAndForTheBest) {
  EXPECT_DOUBLE_EQ(ForestSurrogate::kappa(0), 1.96);
  EXPECT_DOUBLE_EQ(ForestSurrogate::kappa(19), 0.01);
  EXPECT_DOUBLE_EQ(ForestSurrogate::kappa(40), 1.96);
  EXPECT_GT(ForestSurrogate::kappa(5), ForestSurrogate::kappa(6));
}

}  // namespace
}  // namespace terrace::search
