// Sorts elements by the rows to which they belong.
#pragma once

#include <cstdint>
#include <vector>

namespace terrace::data {

// Elements by the row to which each belongs, those of a row in their order.
struct OrderByRow {
  std::vector<int64_t> order = {};  // [elements]
  std::vector<int64_t> first = {};  // [rows + 1], the first place in `order` of each row
};
OrderByRow order_by_row(const std::vector<int64_t>& rows, int64_t num_rows);

}  // namespace terrace::data
