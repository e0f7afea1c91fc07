// Effects of a logistic regression.
#include "terrace/search/proposals/logistic_trend.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "terrace/base/error.h"

namespace terrace::search {
namespace {

// Standard deviations of the prior; a coordinate with an effect of 5 takes a probability of a half to 0.92 at its end.
constexpr double effect_deviation = 5, constant_deviation = 10;

// Solves matrix * x = right for a symmetric positive definite matrix [n, n], in place.
void solve(std::vector<double>& matrix, std::vector<double>& right) {
  const size_t n = right.size();
  for (size_t column = 0; column < n; ++column) {
    const double* const pivot = &matrix[column * n];
    for (size_t row = column + 1; row < n; ++row) {
      const double factor = matrix[row * n + column] / pivot[column];
      for (size_t k = column; k < n; ++k) matrix[row * n + k] -= factor * pivot[k];
      right[row] -= factor * right[column];
    }
  }
  for (size_t row = n; row-- > 0;) {
    for (size_t k = row + 1; k < n; ++k) right[row] -= matrix[row * n + k] * right[k];
    right[row] /= matrix[row * n + row];
  }
}

}  // namespace

template <typename Visit>
void LogisticTrend::for_each_effect(std::span<const double> at, const Visit& visit) const {
  visit(0, 1.0);
  for (size_t i = 0; i < at.size(); ++i) {
    if (!is_categorical_[i]) {
      visit(i + 1, at[i] - 0.5);
    } else if (const auto found = categories_.find({i, at[i]}); found != categories_.end()) {
      visit(found->second, 1.0);
    }
  }
}

void LogisticTrend::fit(std::span<const double> points, std::span<const double> outcomes) {
  const size_t count = is_categorical_.size(), rows = outcomes.size();
  TERRACE_CHECK(points.size() == rows * count, "{} outcomes of {} coordinates", rows, points.size());
  categories_.clear();
  effects_.clear();
  only_outcome_ = outcomes.front();
  if (std::ranges::count(outcomes, only_outcome_) == std::ssize(outcomes)) return;
  size_t width = count + 1;
  for (size_t i = 0; i < points.size(); ++i) {
    if (is_categorical_[i % count] && categories_.try_emplace({i % count, points[i]}, width).second) ++width;
  }
  effects_.assign(width, 0);
  constexpr int most_steps = 20;
  for (int step = 0; step < most_steps; ++step) {
    std::vector<double> curvature(width * width), slope(width);
    for (size_t e = 0; e < width; ++e) {
      const double deviation = e == 0 ? constant_deviation : effect_deviation;
      curvature[e * width + e] = 1 / (deviation * deviation);
      slope[e] = -effects_[e] / (deviation * deviation);
    }
    for (size_t row = 0; row < rows; ++row) {
      const std::span<const double> at = points.subspan(row * count, count);
      const double probability = 0.5 * (1 + expected(at)), is_one = outcomes[row] > 0 ? 1 : 0;
      for_each_effect(at, [&](size_t e, double value) {
        slope[e] += value * (is_one - probability);
        for_each_effect(at, [&](size_t f, double other) {
          curvature[e * width + f] += value * other * probability * (1 - probability);
        });
      });
    }
    solve(curvature, slope);
    double largest = 0;
    for (size_t e = 0; e < width; ++e) {
      effects_[e] += slope[e];
      largest = std::max(largest, std::abs(slope[e]));
    }
    if (largest < 1e-6) break;
  }
}

double LogisticTrend::most_variance(std::span<const double> at) const {
  if (effects_.empty()) return 1;
  const double mean = expected(at);
  return 1 - mean * mean;
}

double LogisticTrend::expected(std::span<const double> at) const {
  if (effects_.empty()) return only_outcome_;
  double sum = 0;
  for_each_effect(at, [&](size_t effect, double value) { sum += effects_[effect] * value; });
  return std::tanh(sum / 2);
}

}  // namespace terrace::search
