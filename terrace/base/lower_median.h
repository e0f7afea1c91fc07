// The middle of some numbers as one of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace terrace {

// The lower one of the two middle values where there are two, so that of two ranks the faster one counts; 0 of none.
inline double lower_median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace terrace
