// The mean and the first harmonics of the year that fit the values of a place best.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace terrace::data {

// Fits f(p) = a_0 + sum over k = 1..harmonics of a_k cos(k x_p) + b_k sin(k x_p), x_p = 2 pi (p + 1/2) / periods, where
// p is the period of the year from 0 on. Each value counts once (least squares).
class AnnualHarmonics {
 public:
  AnnualHarmonics(size_t periods, int64_t harmonics);

  // Computes f of each period from the sum and the count of the values of each period: [periods] each. Where the values
  // are too few, or too unevenly distributed over the year, for so many harmonics, f is the mean of all values; NaN
  // without any value.
  void fit(std::span<const double> sums, std::span<const uint32_t> counts, std::span<double> fitted);

 private:
  void factorize(std::span<const uint32_t> counts);

  size_t coefficients_;
  std::vector<double> terms_;     // [periods, coefficients]: 1, cos x, sin x, cos 2x, ..
  std::vector<uint32_t> counts_;  // the counts of which `factor_` was computed
  std::vector<double> factor_;    // lower triangle of Cholesky's factor of the normal equations; empty: none
  std::vector<double> solution_;
};

}  // namespace terrace::data
