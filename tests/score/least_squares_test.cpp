// Tests the least squares against sums by hand, and each equation left out against a solution without it.
#include "terrace/score/fit/least_squares.h"

#include <gtest/gtest.h>

#include <cmath>

namespace terrace::score {
namespace {

TEST(LeastSquares, InvertsASymmetricMatrix) {
  SquareMatrix matrix(2);
  matrix.at(0, 0) = 4;
  matrix.at(0, 1) = matrix.at(1, 0) = 1;
  matrix.at(1, 1) = 3;
  const SquareMatrix found = inverse(matrix);
  EXPECT_NEAR(found.at(0, 0), 3.0 / 11, 1e-15);
  EXPECT_NEAR(found.at(0, 1), -1.0 / 11, 1e-15);
  EXPECT_NEAR(found.at(1, 1), 4.0 / 11, 1e-15);
}

// One unknown, two equations of slope 1 with remainders 0.1 and 0.3, all known to 0.1, and a doubt of 0.2:
// (0.1 + 0.3) / 0.01 over 2 / 0.01 + 1 / 0.04 is 40 / 225.
TEST(LeastSquares, WeighsEquationsAgainstDoubt) {
  const Equations equations{
      .slopes = {{1}, {1}}, .remainders = {0.1, 0.3}, .weights = {1, 1}, .doubts = {0.2}, .spread = 0.1};
  const SquareMatrix covariance = equations.covariance();
  EXPECT_NEAR(covariance.at(0, 0), 1.0 / 225, 1e-15);
  EXPECT_NEAR(equations.step(covariance, {0})[0], 40.0 / 225, 1e-15);
  EXPECT_NEAR(equations.known_unknowns(covariance), 1 - (1.0 / 225) / 0.04, 1e-14);
}

TEST(LeastSquares, LeavesOneEquationOut) {
  Equations equations{.slopes = {{1, 0.5}, {0.2, 1}, {0.7, 0.1}, {0.3, 0.3}},
                      .remainders = {0.2, -0.1, 0.05, 0.4},
                      .weights = {1, 1, 0.5, 1},
                      .doubts = {0.3, 0.7},
                      .spread = 0.05};
  const std::vector<double> origin(2, 0.0);
  const std::vector<double> whole = equations.step(equations.covariance(), origin);
  // The remainders at the solution, from which the step without an equation begins.
  Equations at_whole = equations;
  for (size_t i = 0; i < 4; ++i) {
    at_whole.remainders[i] -= equations.slopes[i][0] * whole[0] + equations.slopes[i][1] * whole[1];
  }
  for (size_t out = 0; out < 4; ++out) {
    Equations others = equations;
    others.weights[out] = 0;
    const std::vector<double> expected = others.step(others.covariance(), origin);
    const std::vector<double> step = at_whole.step_without(out, at_whole.covariance());
    EXPECT_NEAR(whole[0] + step[0], expected[0], 1e-13) << out;
    EXPECT_NEAR(whole[1] + step[1], expected[1], 1e-13) << out;
  }
}

// Values of tables of Student's t distribution.
TEST(LeastSquares, KnowsPercentilesOfStudentsDistribution) {
  EXPECT_NEAR(t_quantile_95(2), 2.920, 0.013 * 2.920);
  EXPECT_NEAR(t_quantile_95(3), 2.353, 0.007);
  EXPECT_NEAR(t_quantile_95(9), 1.833, 0.001);
  EXPECT_NEAR(t_quantile_95(1e9), 1.645, 0.001);
}

}  // namespace
}  // namespace terrace::score
