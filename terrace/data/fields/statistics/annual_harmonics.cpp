// Solves the normal equations by Cholesky's method; places whose counts are equal share the factor.
#include "terrace/data/fields/statistics/annual_harmonics.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

namespace terrace::data {
namespace {

// The least ratio of a pivot to the number of values. The ratio is 1/2 for values that are evenly distributed over the
// year.
constexpr double least_pivot = 0.02;

}  // namespace

AnnualHarmonics::AnnualHarmonics(size_t periods, int64_t harmonics)
    : coefficients_(2 * static_cast<size_t>(harmonics) + 1), solution_(coefficients_) {
  for (size_t period = 0; period < periods; ++period) {
    const double x = 2 * std::numbers::pi * (static_cast<double>(period) + 0.5) / static_cast<double>(periods);
    terms_.push_back(1);
    for (int64_t k = 1; k <= harmonics; ++k) {
      terms_.push_back(std::cos(static_cast<double>(k) * x));
      terms_.push_back(std::sin(static_cast<double>(k) * x));
    }
  }
}

void AnnualHarmonics::factorize(std::span<const uint32_t> counts) {
  counts_.assign(counts.begin(), counts.end());
  const size_t n = coefficients_;
  std::vector<double> factor(n * n);
  for (size_t period = 0; period < counts.size(); ++period) {
    const double* terms = &terms_[period * n];
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j <= i; ++j) factor[i * n + j] += static_cast<double>(counts[period]) * terms[i] * terms[j];
    }
  }
  factor_.clear();
  const double values = factor[0];
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double rest = factor[i * n + j];
      for (size_t k = 0; k < j; ++k) rest -= factor[i * n + k] * factor[j * n + k];
      if (i == j && !(rest > least_pivot * values)) return;
      factor[i * n + j] = i == j ? std::sqrt(rest) : rest / factor[j * n + j];
    }
  }
  factor_ = std::move(factor);
}

void AnnualHarmonics::fit(std::span<const double> sums, std::span<const uint32_t> counts, std::span<double> fitted) {
  if (!std::ranges::equal(counts, counts_)) factorize(counts);
  const size_t n = coefficients_;
  if (factor_.empty()) {
    const double all = std::accumulate(sums.begin(), sums.end(), 0.0);
    std::ranges::fill(fitted, all / static_cast<double>(std::accumulate(counts.begin(), counts.end(), uint64_t{0})));
    return;
  }
  std::ranges::fill(solution_, 0.0);
  for (size_t period = 0; period < sums.size(); ++period) {
    for (size_t i = 0; i < n; ++i) solution_[i] += terms_[period * n + i] * sums[period];
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) solution_[i] -= factor_[i * n + k] * solution_[k];
    solution_[i] /= factor_[i * n + i];
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) solution_[i] -= factor_[k * n + i] * solution_[k];
    solution_[i] /= factor_[i * n + i];
  }
  for (size_t period = 0; period < fitted.size(); ++period) {
    fitted[period] = 0;
    for (size_t i = 0; i < n; ++i) fitted[period] += terms_[period * n + i] * solution_[i];
  }
}

}  // namespace terrace::data
