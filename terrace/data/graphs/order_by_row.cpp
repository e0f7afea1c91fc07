// Counts the elements of each row.
#include "terrace/data/graphs/order_by_row.h"

#include <cstddef>
#include <numeric>

namespace terrace::data {

// Sorts by counting, which keeps the order of the elements of a row.
OrderByRow order_by_row(const std::vector<int64_t>& rows, int64_t num_rows) {
  OrderByRow result{.order = std::vector<int64_t>(rows.size()),
                    .first = std::vector<int64_t>(static_cast<size_t>(num_rows) + 1)};
  for (const int64_t row : rows) ++result.first[static_cast<size_t>(row) + 1];
  std::partial_sum(result.first.begin(), result.first.end(), result.first.begin());
  std::vector<int64_t> next = result.first;
  for (size_t element = 0; element < rows.size(); ++element) {
    result.order[static_cast<size_t>(next[static_cast<size_t>(rows[element])]++)] = static_cast<int64_t>(element);
  }
  return result;
}

}  // namespace terrace::data
