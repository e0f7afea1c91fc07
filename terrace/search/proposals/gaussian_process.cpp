// Cholesky factors that grow by a row for each point, and lengths by coordinate ascent.
#include "terrace/search/proposals/gaussian_process.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "terrace/base/error.h"

namespace terrace::search {
namespace {

constexpr double prior_octaves = 1.5;  // standard deviation of the lengths' logarithms to base 2
constexpr double first_noise = 1e-3, least_noise = 1e-6, most_noise = 0.1;

size_t row_begin(size_t row) { return row * (row + 1) / 2; }

// Appends to a lower factor the row of a matrix whose entries are in its place.
bool append_to_factor(std::vector<double>& factor, size_t row) {
  double* const own = factor.data() + row_begin(row);
  double rest = own[row];
  for (size_t j = 0; j < row; ++j) {
    const double* const other = factor.data() + row_begin(j);
    double sum = own[j];
    for (size_t k = 0; k < j; ++k) sum -= own[k] * other[k];
    own[j] = sum / other[j];
    rest -= own[j] * own[j];
  }
  if (!(rest > 1e-12)) return false;
  own[row] = std::sqrt(rest);
  return true;
}

// Solves factor * x = right in place.
void solve_lower(const std::vector<double>& factor, std::span<double> right) {
  for (size_t i = 0; i < right.size(); ++i) {
    const double* const row = factor.data() + row_begin(i);
    double sum = right[i];
    for (size_t k = 0; k < i; ++k) sum -= row[k] * right[k];
    right[i] = sum / row[i];
  }
}

// Solves factor^T * x = right in place.
void solve_upper(const std::vector<double>& factor, std::span<double> right) {
  for (size_t i = right.size(); i-- > 0;) {
    const double* const row = factor.data() + row_begin(i);
    right[i] /= row[i];
    for (size_t k = 0; k < i; ++k) right[k] -= row[k] * right[i];
  }
}

}  // namespace

// The prior is log-normal, with a median that grows with the number of coordinates as distances do (Hvarfner, Hellsten
// and Nardi, "Vanilla Bayesian optimization performs great in high dimensions", ICML 2024).
double GaussianProcess::median_length(size_t coordinates) { return std::sqrt(static_cast<double>(coordinates)); }

GaussianProcess::GaussianProcess(std::vector<bool> is_categorical) : is_categorical_(std::move(is_categorical)) {
  const double length = median_length(is_categorical_.size());
  kernel_ = {std::vector<double>(is_categorical_.size(), 1 / (length * length)), first_noise};
}

double GaussianProcess::covariance(const Kernel& kernel, const double* a, const double* b) const {
  double square = 0;
  for (size_t i = 0; i < is_categorical_.size(); ++i) {
    const double difference = a[i] - b[i];
    square += kernel.weights[i] * (is_categorical_[i] ? (difference != 0 ? 1.0 : 0.0) : difference * difference);
  }
  const double root = std::sqrt(5 * square);
  return (1 + root + 5 * square / 3) * std::exp(-root);
}

void GaussianProcess::add(std::span<const double> at) {
  points_.insert(points_.end(), at.begin(), at.end());
  ++size_;
  factor_.resize(row_begin(size_));
  if (!append_row(size_ - 1)) factorize();
}

// The point changes variances alone: the value is the mean, so its weight is 0 and the other weights stay as they are.
void GaussianProcess::add_expected(std::span<const double> at) {
  add(at);
  weights_.push_back(0);
}

bool GaussianProcess::append_row(size_t row) {
  const size_t count = is_categorical_.size();
  for (size_t j = 0; j < row; ++j) {
    factor_[row_begin(row) + j] = covariance(kernel_, &points_[row * count], &points_[j * count]);
  }
  factor_[row_begin(row) + row] = 1 + kernel_.noise;
  return append_to_factor(factor_, row);
}

void GaussianProcess::factorize() {
  for (size_t row = 0; row < size_; ++row) {
    if (append_row(row)) continue;
    kernel_.noise = std::max(2 * kernel_.noise, least_noise);
    row = static_cast<size_t>(-1);  // from the first row again
  }
}

void GaussianProcess::truncate(size_t size) {
  size_ = size;
  points_.resize(size * is_categorical_.size());
  factor_.resize(row_begin(size));
}

void GaussianProcess::set_values(const std::vector<double>& values) {
  TERRACE_CHECK(values.size() == size_, "{} points have {} values", size_, values.size());
  values_ = values;
  weights_ = values;
  solve_lower(factor_, weights_);
  double squares = 0;
  for (const double one : weights_) squares += one * one;
  // The scale with the greatest likelihood, drawn towards 1 as by one more value.
  scale_ = (squares + 1) / static_cast<double>(size_ + 1);
  solve_upper(factor_, weights_);
}

double GaussianProcess::log_posterior(const Kernel& kernel, const std::vector<size_t>& chosen) const {
  const size_t count = is_categorical_.size(), rows = chosen.size();
  std::vector<double> factor(row_begin(rows)), values;
  double log_root = 0;  // half of the determinant's logarithm
  for (size_t i = 0; i < rows; ++i) {
    values.push_back(values_[chosen[i]]);
    for (size_t j = 0; j < i; ++j) {
      factor[row_begin(i) + j] = covariance(kernel, &points_[chosen[i] * count], &points_[chosen[j] * count]);
    }
    factor[row_begin(i) + i] = 1 + kernel.noise;
    if (!append_to_factor(factor, i)) return -std::numeric_limits<double>::infinity();
    log_root += std::log(factor[row_begin(i) + i]);
  }
  solve_lower(factor, values);
  double squares = 1;
  for (const double one : values) squares += one * one;
  double result = -log_root - 0.5 * static_cast<double>(rows) * std::log(squares / static_cast<double>(rows + 1));
  const double median = median_length(count);
  for (const double weight : kernel.weights) {
    const double octaves = -0.5 * std::log2(weight * median * median) / prior_octaves;
    result -= 0.5 * octaves * octaves;
  }
  return result;
}

void GaussianProcess::fit() {
  std::vector<size_t> chosen;
  const size_t points = std::min(size_, fitted_points);
  for (size_t i = 0; i < points; ++i) chosen.push_back(i * size_ / points);
  double best = log_posterior(kernel_, chosen);
  for (int sweep = 0; sweep < 2; ++sweep) {
    const double before = best;
    for (size_t i = 0; i <= is_categorical_.size(); ++i) {
      const bool is_noise = i == is_categorical_.size();
      for (const double factor : {0.25, 4.0, 0.0625, 16.0}) {
        Kernel moved = kernel_;
        double& what = is_noise ? moved.noise : moved.weights[i];
        what = is_noise ? std::clamp(what * factor, least_noise, most_noise) : what * factor;
        const double reached = log_posterior(moved, chosen);
        if (reached > best) {
          best = reached;
          kernel_ = moved;
          break;
        }
      }
    }
    if (best == before) break;
  }
  factorize();
}

GaussianProcess::Prediction GaussianProcess::bound(std::span<const double> at) const {
  const size_t count = is_categorical_.size();
  double mean = 0, closest = 0;
  for (size_t i = 0; i < size_; ++i) {
    const double one = covariance(kernel_, at.data(), &points_[i * count]);
    mean += one * weights_[i];
    closest = std::max(closest, one);
  }
  return {mean, scale_ * (1 - closest * closest / (1 + kernel_.noise))};
}

GaussianProcess::Prediction GaussianProcess::predict(std::span<const double> at) const {
  const size_t count = is_categorical_.size();
  std::vector<double> column(size_);
  double mean = 0;
  for (size_t i = 0; i < size_; ++i) {
    column[i] = covariance(kernel_, at.data(), &points_[i * count]);
    mean += column[i] * weights_[i];
  }
  solve_lower(factor_, column);
  double known = 0;
  for (const double one : column) known += one * one;
  return {mean, scale_ * std::max(0.0, 1 - known)};
}

}  // namespace terrace::search
