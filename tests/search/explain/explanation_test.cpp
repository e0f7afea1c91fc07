// Known functions are ranked as they are made, failures are explained, and what cannot be explained is refused.
#include "terrace/search/explain/explanation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "terrace/base/error.h"

namespace terrace::search {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// Every point of a grid whose parameters a, b, c .. have the values 0 to size - 1. NaN stands for a failure.
TrialTable grid(const std::vector<size_t>& sizes, const std::function<double(const std::vector<double>&)>& function) {
  TrialTable trials{.path = "results.csv"};
  trials.objectives.push_back({.name = "score"});
  for (size_t i = 0; i < sizes.size(); ++i) {
    trials.parameters.push_back({.name = std::string(1, static_cast<char>('a' + i)), .is_numeric = true});
    for (size_t value = 0; value < sizes[i]; ++value) trials.parameters[i].values.push_back(std::to_string(value));
  }
  const size_t points = std::accumulate(sizes.begin(), sizes.end(), size_t{1}, std::multiplies<>());
  for (size_t point = 0; point < points; ++point) {
    std::vector<double> values;
    size_t rest = point;
    for (size_t i = 0; i < sizes.size(); ++i) {
      trials.parameters[i].indices.push_back(rest % sizes[i]);
      values.push_back(static_cast<double>(rest % sizes[i]));
      rest /= sizes[i];
    }
    trials.objectives[0].values.push_back(function(values));
    trials.failures.emplace_back(std::isnan(trials.objectives[0].values.back()) ? "F_oom" : "");
    trials.job_ids.push_back(std::to_string(point));
  }
  return trials;
}

std::string ranked(const TrialTable& trials, const Attribution& attribution) {
  std::string names;
  for (const size_t i : attribution.ranking()) names += trials.parameters[i].name;
  return names;
}

std::string refusal(const TrialTable& trials) {
  try {
    explain(trials, FailuresAs::left_out);
  } catch (const UserError& error) {
    EXPECT_EQ(error.code, ExitCode::bad_input);
    return error.what();
  }
  return "";
}

// 10 a + 3 b + b c for values from 0 to 2, without d.
TEST(Explanation, RanksTheParametersOfAKnownFunction) {
  const TrialTable trials = grid({3, 3, 3, 3}, [](const auto& x) { return 10 * x[0] + 3 * x[1] + x[1] * x[2]; });
  const Explanation explanation = explain(trials, FailuresAs::left_out);
  ASSERT_EQ(explanation.attributions.size(), 1);
  const Attribution& of = explanation.attributions[0];
  EXPECT_EQ(ranked(trials, of), "abcd");
  // Over the whole grid the features are independent: a adds 10 (a - 1); b adds (3 + (c + 1) / 2) (b - 1), which is 4
  // |b - 1| in the mean over c; c adds (b + 1) / 2 (c - 1). The means of |a - 1| and |b - 1| are 2/3, of (b + 1) / 2
  // is 1.
  EXPECT_NEAR(of.effects[0], 10 * 2.0 / 3, 0.1);
  EXPECT_NEAR(of.effects[1], 4 * 2.0 / 3, 0.1);
  EXPECT_NEAR(of.effects[2], 1 * 2.0 / 3, 0.1);
  EXPECT_NEAR(of.effects[3], 0, 0.05);
  EXPECT_NEAR(of.mean, 10 + 3 + 1, 1e-12);
  EXPECT_EQ(of.trials, 81);
  EXPECT_GT(of.fit, 0.98);
  EXPECT_FALSE(of.is_poor());
  double shares = 0;
  for (const double effect : of.effects) shares += of.share(effect);
  EXPECT_NEAR(shares, 1, 1e-12);
  // (b - 1)(c - 1) is what only both together say; its mean size is 4/9.
  EXPECT_EQ(std::pair(of.pairs[0].first, of.pairs[0].second), std::pair(size_t{1}, size_t{2}));
  EXPECT_NEAR(of.pairs[0].effect, 4.0 / 9, 0.05);
  EXPECT_EQ(of.pairs.size(), 6);
  EXPECT_LT(of.pairs[1].effect, 0.1);
}

TEST(Explanation, AddsUpToEachTrial) {
  const TrialTable trials = grid({4, 3}, [](const auto& x) { return x[0] * x[1] * 1e13; });
  const Attribution of = explain(trials, FailuresAs::left_out).attributions[0];
  ASSERT_EQ(of.rows.size(), trials.size());
  for (size_t row = 0; row < of.rows.size(); ++row) {
    // The grid is balanced, so the base value is the mean; what the trees have not fitted is far below 1%.
    EXPECT_NEAR(of.mean + of.contributions[2 * row] + of.contributions[2 * row + 1],
                trials.objectives[0].values[of.rows[row]], 0.01 * 6e13);
  }
}

TEST(Explanation, BestTrialsFirstOfAMinimizedObjective) {
  TrialTable trials = grid({5, 2}, [](const auto& x) { return std::abs(x[0] - 3) + x[1]; });
  trials.objectives[0].smaller_is_better = true;
  const Explanation explanation = explain(trials, FailuresAs::left_out);
  EXPECT_EQ(explanation.best.front(), 3);
  EXPECT_EQ(explanation.best.back(), 5);  // |0 - 3| + 1
  EXPECT_EQ(explanation.best_so_far.front(), 3);
  EXPECT_EQ(explanation.best_so_far[2], 1);
  EXPECT_EQ(explanation.best_so_far.back(), 0);
  EXPECT_EQ(explanation.pareto_front, std::vector<size_t>{3});
}

// a + 10 b + 4 c, where c exists only if b is 1. Which trials have c says as much as b does, but is no effect of c.
TEST(Explanation, CountsTheTrialsThatHaveAParameter) {
  TrialTable trials = grid({3, 2, 2}, [](const auto& x) { return x[0] + 10 * x[1] + (x[1] == 1 ? 4 * x[2] : 0); });
  TriedParameter& sometimes = trials.parameters[2];
  sometimes.values = {"", "0", "1"};
  for (size_t row = 0; row < trials.size(); ++row) {
    sometimes.indices[row] = trials.parameters[1].indices[row] == 0 ? 0 : sometimes.indices[row] + 1;
  }
  const Attribution of = explain(trials, FailuresAs::left_out).attributions[0];
  EXPECT_EQ(of.trials_with, (std::vector<size_t>{12, 12, 6}));
  EXPECT_EQ(ranked(trials, of), "bca");
  // Trees that cut at b and then at c: with b = c = 1 they say 14, without c 12, without b 7, without both 6. So c adds
  // ((14 - 12) + (7 - 6)) / 2, and as much less with c = 0.
  EXPECT_NEAR(of.effects[2], 1.5, 0.1);
  double elsewhere = 0;
  for (size_t row = 0; row < of.rows.size(); ++row) {
    if (!sometimes.exists(of.rows[row])) elsewhere = std::max(elsewhere, std::abs(of.contributions[3 * row + 2]));
  }
  EXPECT_NEAR(elsewhere, 0.5, 0.1) << "where b is not known, c = 0 says 5 in place of 6";
}

TEST(Explanation, SaysWhatMakesTrialsFail) {
  const auto function = [](const auto& x) { return x[1] < 3 ? nan : x[0]; };
  const TrialTable trials = grid({6, 5, 2}, function);
  const Explanation explanation = explain(trials, FailuresAs::left_out);
  ASSERT_EQ(explanation.attributions.size(), 2);
  EXPECT_EQ(explanation.attributions[0].trials, 24);
  EXPECT_EQ(ranked(trials, explanation.attributions[0]).front(), 'a');
  const Attribution& failure = explanation.attributions[1];
  EXPECT_TRUE(failure.is_failure);
  EXPECT_EQ(failure.name, "failure");
  EXPECT_EQ(failure.trials, 60);
  EXPECT_NEAR(failure.mean, 0.6, 1e-12);
  EXPECT_EQ(ranked(trials, failure).front(), 'b');
  EXPECT_NEAR(failure.effects[1], 0.6 * 0.4 + 0.4 * 0.6, 0.02);  // |failed - 0.6|
  EXPECT_EQ(explanation.best_so_far[0], std::nullopt);

  // With the worst value in place of failures, b decides whether there is anything else.
  const Explanation worst = explain(trials, FailuresAs::worst);
  EXPECT_EQ(worst.attributions[0].trials, 60);
  EXPECT_EQ(ranked(trials, worst.attributions[0]).substr(0, 2), "ba");
  EXPECT_NEAR(worst.attributions[0].mean, 0.4 * 2.5, 1e-12);  // failures count as 0
}

TEST(Explanation, WorstIsTheLargestOfWhatIsToBeSmall) {
  TrialTable trials = grid({10}, [](const auto& x) { return x[0] < 5 ? nan : x[0]; });
  trials.objectives[0].smaller_is_better = true;
  EXPECT_NEAR(explain(trials, FailuresAs::worst).attributions[0].mean, (5 * 9 + 5 + 6 + 7 + 8 + 9) / 10.0, 1e-12);
}

TEST(Explanation, PoorWhereParametersSayNothing) {
  const TrialTable noise = grid({4, 4, 4}, [](const auto& x) {
    return std::fmod(std::abs(std::sin(12.9898 * x[0] + 78.233 * x[1] + 37.719 * x[2]) * 43758.5453), 1.0);
  });
  EXPECT_TRUE(explain(noise, FailuresAs::left_out).attributions[0].is_poor());
  const Attribution few = explain(grid({7}, [](const auto& x) { return x[0]; }), FailuresAs::left_out).attributions[0];
  EXPECT_EQ(few.fit, std::nullopt);
  EXPECT_TRUE(few.is_poor());
}

TEST(Explanation, RepeatsExactly) {
  const TrialTable trials = grid({20, 20, 20}, [](const auto& x) { return x[0] < 2 ? nan : x[0] * x[1] - x[2]; });
  const Explanation one = explain(trials, FailuresAs::left_out), two = explain(trials, FailuresAs::left_out);
  for (size_t i = 0; i < one.attributions.size(); ++i) {
    EXPECT_EQ(one.attributions[i].contributions, two.attributions[i].contributions);
    EXPECT_EQ(one.attributions[i].fit, two.attributions[i].fit);
  }
  EXPECT_LT(one.attributions[0].rows.size(), one.attributions[0].trials);  // a sample of them is explained
}

TEST(Explanation, RefusesTooFewOrEqualTrials) {
  const auto first = [](const auto& x) { return x[0]; };
  EXPECT_EQ(refusal(grid({0}, first)), "results.csv: has no trial; search first");
  EXPECT_EQ(refusal(grid({1}, first)),
            "results.csv: 1 of 1 trials did not fail; an explanation needs at least 5: go on with the search by a "
            "larger --trials");
  EXPECT_EQ(refusal(grid({8}, [](const auto&) { return nan; })),
            "results.csv: all 8 trials failed, so there is no objective to explain; search where some do not fail");
  EXPECT_EQ(refusal(grid({8}, [](const auto&) { return 34.1; })),
            "results.csv: score is 34.1 in all 8 trials that did not fail, so no parameter has an effect on it; search "
            "with other parameters");
}

TEST(FrontOfFigures, HoldsTheTrialsThatNoOtherOneBetters) {
  const TriedFigure speed{.name = "speed", .values = {1, 3, 2, 3, nan, 0, 1}};
  const TriedFigure memory{.name = "memory", .values = {1, 5, 2, 5, 0, 2, nan}, .smaller_is_better = true};
  // 5 is slower and larger than 0; 1 and 3 are equal; 4 and 6 lack a figure.
  EXPECT_EQ(front_of({&speed, &memory}), (std::vector<size_t>{0, 1, 2, 3}));
  EXPECT_EQ(front_of({&speed}), (std::vector<size_t>{1, 3}));
  EXPECT_EQ(front_of({}), std::vector<size_t>{});
}

// Predictions of a step of 10 + a seconds; errors of the best one's kind differ by 20%, so 12 s is a tie and 13 s none.
TEST(Explanation, CountsThePredictionsThatAreTiedWithTheBest) {
  TrialTable trials = grid({5, 2}, [](const auto& x) { return 10 + x[0]; });
  trials.objectives[0].name = "step_seconds";
  trials.objectives[0].smaller_is_better = true;
  EXPECT_EQ(explain(trials, FailuresAs::left_out).tied, 1u) << "nothing says how far errors differ";
  trials.figures.push_back({.name = "median_difference", .values = std::vector<double>(10, 0.2)});
  EXPECT_EQ(explain(trials, FailuresAs::left_out).tied, 6u);
  trials.objectives[0].name = "loss";
  EXPECT_EQ(explain(trials, FailuresAs::left_out).tied, 1u);
}

}  // namespace
}  // namespace terrace::search
