// Normal equations by Gauss and Jordan: there are at most some twenty unknowns.
#include "terrace/score/fit/least_squares.h"

#include <cmath>
#include <numeric>

namespace terrace::score {

std::vector<double> SquareMatrix::times(const std::vector<double>& vector) const {
  std::vector<double> product(size_);
  for (size_t row = 0; row < size_; ++row) {
    for (size_t column = 0; column < size_; ++column) product[row] += at(row, column) * vector[column];
  }
  return product;
}

// Without exchanges of rows, which a positive definite matrix does not need.
SquareMatrix inverse(SquareMatrix matrix) {
  const size_t size = matrix.size();
  for (size_t pivot = 0; pivot < size; ++pivot) {
    const double divisor = matrix.at(pivot, pivot);
    matrix.at(pivot, pivot) = 1;
    for (size_t column = 0; column < size; ++column) matrix.at(pivot, column) /= divisor;
    for (size_t row = 0; row < size; ++row) {
      if (row == pivot) continue;
      const double factor = matrix.at(row, pivot);
      matrix.at(row, pivot) = 0;
      for (size_t column = 0; column < size; ++column) matrix.at(row, column) -= factor * matrix.at(pivot, column);
    }
  }
  return matrix;
}

SquareMatrix Equations::covariance() const {
  SquareMatrix normal(doubts.size());
  for (size_t k = 0; k < doubts.size(); ++k) normal.at(k, k) = 1 / (doubts[k] * doubts[k]);
  for (size_t i = 0; i < slopes.size(); ++i) {
    for (size_t k = 0; k < doubts.size(); ++k) {
      for (size_t l = 0; l < doubts.size(); ++l) {
        normal.at(k, l) += weights[i] * slopes[i][k] * slopes[i][l] / (spread * spread);
      }
    }
  }
  return inverse(std::move(normal));
}

std::vector<double> Equations::step(const SquareMatrix& covariance, const std::vector<double>& x) const {
  std::vector<double> right(doubts.size());
  for (size_t k = 0; k < doubts.size(); ++k) {
    right[k] = -x[k] / (doubts[k] * doubts[k]);
    for (size_t i = 0; i < slopes.size(); ++i) {
      right[k] += weights[i] * slopes[i][k] * remainders[i] / (spread * spread);
    }
  }
  return covariance.times(right);
}

// By the formula of Sherman and Morrison for the inverse of a matrix of which a product of two vectors is taken away.
std::vector<double> Equations::step_without(size_t equation, const SquareMatrix& covariance) const {
  const std::vector<double>& slope = slopes[equation];
  std::vector<double> step = covariance.times(slope);
  const double weight = weights[equation] / (spread * spread);
  const double leverage = weight * std::inner_product(slope.begin(), slope.end(), step.begin(), 0.0);
  for (double& one : step) one *= -weight * remainders[equation] / (1 - leverage);
  return step;
}

double Equations::known(size_t unknown, const SquareMatrix& covariance) const {
  return 1 - covariance.at(unknown, unknown) / (doubts[unknown] * doubts[unknown]);
}

double Equations::known_unknowns(const SquareMatrix& covariance) const {
  double known = 0;
  for (size_t k = 0; k < doubts.size(); ++k) known += this->known(k, covariance);
  return known;
}

double t_quantile_95(double freedom) {
  const double z = 1.6448536269514722, n = freedom;
  const double z3 = std::pow(z, 3), z5 = std::pow(z, 5), z7 = std::pow(z, 7);
  return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * n * n * n);
}

}  // namespace terrace::score
