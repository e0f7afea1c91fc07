// Fits a property of structures by a sum over their atoms of a number for each element.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "terrace/data/graphs/structures/elements.h"

namespace terrace::data {

// A number for each column of the property, for each element by its atomic number (0: no atom).
using ElementNumbers = std::map<uint8_t, std::vector<double>>;

// Least squares in double precision: the numbers e minimise the sum over structures of
// (weight * (property - sum over atoms of e[element]))^2. Where the structures leave a combination of elements open,
// such as that of H and O in water alone, the solution with the least sum of (e * norm of the element's column)^2 is
// taken, which in such a case divides the property equally among the elements. Depends on the order of the structures
// only by rounding.
class ElementFit {
 public:
  explicit ElementFit(int64_t width) : width_(static_cast<size_t>(width)) {}

  // `values` has `width` columns.
  void add(std::span<const uint8_t> species, std::span<const double> values, double weight);
  // Returns the numbers of the elements that occur.
  ElementNumbers solve() const;

 private:
  static constexpr size_t elements = most_element + 1;

  size_t width_;
  std::vector<double> products_ = std::vector<double>(elements * elements);  // of the columns with each other
  std::array<std::vector<double>, elements> with_values_ = {};               // of the columns with the property
};

// Returns the sums over the atoms; elements without numbers count as 0.
std::vector<double> sum_of_elements(const ElementNumbers& numbers, std::span<const uint8_t> species, int64_t width);

}  // namespace terrace::data
