// Weighted least squares with a doubt about each unknown, and what becomes of them where one equation is left out.
#pragma once

#include <cstddef>
#include <vector>

namespace terrace::score {

// A square matrix by rows.
class SquareMatrix {
 public:
  explicit SquareMatrix(size_t size) : size_(size), entries_(size * size) {}

  size_t size() const { return size_; }
  double& at(size_t row, size_t column) { return entries_[row * size_ + column]; }
  double at(size_t row, size_t column) const { return entries_[row * size_ + column]; }
  std::vector<double> times(const std::vector<double>& vector) const;

 private:
  size_t size_;
  std::vector<double> entries_;
};

// The inverse of a symmetric positive definite matrix.
SquareMatrix inverse(SquareMatrix matrix);

// Equations slopes[i] . x = remainders[i], each known to `spread` and counted `weights[i]` times, beside x[k] = 0 known
// to doubts[k].
struct Equations {
  std::vector<std::vector<double>> slopes = {};
  std::vector<double> remainders = {}, weights = {};
  std::vector<double> doubts = {};
  double spread = 1;

  // The covariance of the unknowns.
  SquareMatrix covariance() const;
  // The most likely x + step, where the remainders are those at x.
  std::vector<double> step(const SquareMatrix& covariance, const std::vector<double>& x) const;
  // The step from the most likely x to the one without the equation: of all but it.
  std::vector<double> step_without(size_t equation, const SquareMatrix& covariance) const;
  // The part of the doubt about an unknown that the equations remove, 0 to 1.
  double known(size_t unknown, const SquareMatrix& covariance) const;
  // The number of unknowns that the equations set, each counted by how much of its doubt they remove.
  double known_unknowns(const SquareMatrix& covariance) const;
};

// The 95th percentile of Student's t distribution; `freedom` at least 2. The expansion in 1 / freedom of Abramowitz and
// Stegun, 26.7.5, which is 1.3% too low at 2 degrees and closer above.
double t_quantile_95(double freedom);

}  // namespace terrace::score
