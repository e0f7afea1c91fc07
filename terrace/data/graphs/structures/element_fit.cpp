// Solves normal equations with columns of unit norm by Cholesky's method, a ridge and steps of refinement.
#include "terrace/data/graphs/structures/element_fit.h"

#include <algorithm>
#include <cmath>

namespace terrace::data {
namespace {

// The refinement takes the ridge's effect away where the data decide: each step leaves a share ridge / (ridge + s) of
// it in a direction whose squared singular value is s, in units of a column's squared norm.
constexpr double ridge = 1e-10;
constexpr int refinements = 5;

using Matrix = std::vector<std::vector<double>>;

// The lower triangle of a positive definite matrix.
Matrix cholesky(Matrix a) {
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = a[i][j];
      for (size_t k = 0; k < j; ++k) sum -= a[i][k] * a[j][k];
      a[i][j] = i == j ? std::sqrt(std::max(sum, ridge)) : sum / a[j][j];  // rounding may make it less
    }
  }
  return a;
}

// L L^T x = b
std::vector<double> solved(const Matrix& lower, std::vector<double> x) {
  const size_t size = x.size();
  for (size_t i = 0; i < size; ++i) {
    for (size_t k = 0; k < i; ++k) x[i] -= lower[i][k] * x[k];
    x[i] /= lower[i][i];
  }
  for (size_t i = size; i-- > 0;) {
    for (size_t k = i + 1; k < size; ++k) x[i] -= lower[k][i] * x[k];
    x[i] /= lower[i][i];
  }
  return x;
}

}  // namespace

void ElementFit::add(std::span<const uint8_t> species, std::span<const double> values, double weight) {
  std::array<int64_t, elements> counts = {};
  for (const uint8_t element : species) ++counts[element];
  std::vector<size_t> present;
  for (size_t element = 0; element < elements; ++element) {
    if (counts[element] > 0) present.push_back(element);
  }
  const double square = weight * weight;
  for (const size_t a : present) {
    const double of_a = square * static_cast<double>(counts[a]);
    for (const size_t b : present) products_[a * elements + b] += of_a * static_cast<double>(counts[b]);
    with_values_[a].resize(width_);
    for (size_t column = 0; column < width_; ++column) with_values_[a][column] += of_a * values[column];
  }
}

ElementNumbers ElementFit::solve() const {
  std::vector<size_t> present;
  for (size_t element = 0; element < elements; ++element) {
    if (!with_values_[element].empty()) present.push_back(element);
  }
  const size_t size = present.size();
  std::vector<double> norms;
  for (const size_t element : present) norms.push_back(std::sqrt(products_[element * elements + element]));
  Matrix gram(size, std::vector<double>(size));
  for (size_t i = 0; i < size; ++i) {
    for (size_t j = 0; j < size; ++j) {
      gram[i][j] = products_[present[i] * elements + present[j]] / (norms[i] * norms[j]);
    }
  }
  Matrix ridged = gram;
  for (size_t i = 0; i < size; ++i) ridged[i][i] += ridge;
  const Matrix lower = cholesky(std::move(ridged));
  ElementNumbers numbers;
  for (size_t column = 0; column < width_; ++column) {
    std::vector<double> x(size);
    for (int step = 0; step <= refinements; ++step) {
      std::vector<double> residual(size);
      for (size_t i = 0; i < size; ++i) {
        residual[i] = with_values_[present[i]][column] / norms[i];
        for (size_t j = 0; j < size; ++j) residual[i] -= gram[i][j] * x[j];
      }
      const std::vector<double> change = solved(lower, std::move(residual));
      for (size_t i = 0; i < size; ++i) x[i] += change[i];
    }
    for (size_t i = 0; i < size; ++i) numbers[static_cast<uint8_t>(present[i])].push_back(x[i] / norms[i]);
  }
  return numbers;
}

std::vector<double> sum_of_elements(const ElementNumbers& numbers, std::span<const uint8_t> species, int64_t width) {
  std::array<int64_t, most_element + 1> counts = {};
  for (const uint8_t element : species) ++counts[element];
  std::vector<double> sums(static_cast<size_t>(width));
  for (const auto& [element, of_element] : numbers) {
    const auto count = static_cast<double>(counts[element]);
    for (size_t column = 0; column < sums.size(); ++column) sums[column] += count * of_element[column];
  }
  return sums;
}

}  // namespace terrace::data
