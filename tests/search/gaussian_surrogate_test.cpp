// Learns from trials of which some fail.
#include "terrace/search/proposals/gaussian_surrogate.h"

#include <gtest/gtest.h>

#include "tests/search/line.h"

namespace terrace::search {
namespace {

TEST(GaussianSurrogate, AvoidsWhereTrialsFail) {
  const Space space = line();
  GaussianSurrogate surrogate(space);
  // The objective grows up to 50, from where on trials fail.
  for (double x = 0; x <= 100; x += 10) surrogate.learn({x}, x < 50 ? Objective(x) : Objective());
  surrogate.prepare({});
  EXPECT_GT(surrogate.promise({44}), 10 * surrogate.promise({65}));
  EXPECT_GT(surrogate.promise({44}), surrogate.promise({5}));
}

TEST(GaussianSurrogate, ExpectsFailuresBeyondTheTrialsThatFailed) {
  const Space space = line();
  GaussianSurrogate of_all(space), of_successes(space);
  for (double x = 0; x <= 50; x += 2) {
    of_all.learn({x}, x < 20 ? Objective(x) : Objective());
    if (x < 20) of_successes.learn({x}, x);
  }
  of_all.prepare({});
  of_successes.prepare({});
  const auto probability = [&](double x) { return of_all.promise({x}) / of_successes.promise({x}); };
  EXPECT_GT(probability(19), 0.1);
  EXPECT_LT(probability(60), 0.01);
  EXPECT_LT(probability(100), 0.01) << "far from all trials";
}

TEST(GaussianSurrogate, LearnsKindsOfFailureApart) {
  const Space space = line();
  GaussianSurrogate successes(space), layouts(space), memory(space), both(space);
  for (GaussianSurrogate* one : {&successes, &layouts, &memory, &both}) {
    for (const double x : {30, 45}) one->learn({x}, x);
  }
  for (GaussianSurrogate* one : {&layouts, &both}) {
    for (const double x : {0, 10}) one->learn({x}, {}, "layout");
  }
  for (GaussianSurrogate* one : {&memory, &both}) {
    for (const double x : {60, 80}) one->learn({x}, {}, "oom");
  }
  for (GaussianSurrogate* one : {&successes, &layouts, &memory, &both}) one->prepare({});
  for (const double x : {5, 20, 50, 70, 100}) {
    const double all = both.promise({x}),
                 expected = layouts.promise({x}) * memory.promise({x}) / successes.promise({x});
    EXPECT_GT(all, 0);
    EXPECT_NEAR(all, expected, 1e-9 * expected);
  }
}

TEST(GaussianSurrogate, LearnsTheSameInEveryOrderOfKinds) {
  const Space space = line();
  GaussianSurrogate first(space), last(space);
  last.learn({30}, 1);
  for (GaussianSurrogate* one : {&first, &last}) one->learn({60}, {}, "oom");
  first.learn({30}, 1);
  for (GaussianSurrogate* one : {&first, &last}) one->prepare({});
  EXPECT_NEAR(first.promise({40}), last.promise({40}), 1e-12);
}

TEST(GaussianSurrogate, LooksFarFromTrialsWhileAllFail) {
  const Space space = line();
  GaussianSurrogate surrogate(space);
  for (const double x : {0, 5, 10}) surrogate.learn({x}, {});
  surrogate.prepare({});
  EXPECT_GT(surrogate.promise({90}), surrogate.promise({12}));
  surrogate.prepare({{90}});
  EXPECT_GT(surrogate.promise({55}), surrogate.promise({89}));
}

TEST(GaussianSurrogate, PromisesLessNextToAPendingTrial) {
  const Space space = line();
  GaussianSurrogate surrogate(space);
  for (const double x : {0, 30, 70, 100}) surrogate.learn({x}, x);
  surrogate.prepare({});
  const double before = surrogate.promise({85});
  surrogate.prepare({{86}});
  EXPECT_LT(surrogate.promise({85}), before / 2);
  surrogate.prepare({});
  EXPECT_EQ(surrogate.promise({85}), before);
}

TEST(GaussianSurrogate, BoundsItsPromise) {
  const Space space = line();
  GaussianSurrogate surrogate(space);
  for (double x = 0; x <= 100; x += 20) surrogate.learn({x}, x < 70 ? Objective(-(x - 50) * (x - 50)) : Objective());
  surrogate.prepare({{47}});
  for (double x = 0; x <= 100; x += 3) EXPECT_GE(surrogate.promise_bound({x}), surrogate.promise({x}));
}

TEST(GaussianSurrogate, KeepsTheBestOfManyTrials) {
  const Space space = line();
  GaussianSurrogate surrogate(space);
  surrogate.learn({40}, 1000);
  for (int i = 0; i < 900; ++i) surrogate.learn({static_cast<double>(60 + i % 40)}, -i);
  surrogate.prepare({});
  EXPECT_GT(surrogate.promise({39}), surrogate.promise({62}));
}

}  // namespace
}  // namespace terrace::search
