// Sorts longitudes and looks for their largest gap.
#include "terrace/data/fields/longitude_circle.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace terrace::data {

LongitudeCircle longitude_circle(const std::vector<double>& longitudes) {
  constexpr double around = 360, widest_over_next = 1.5;
  const size_t count = longitudes.size();
  const auto turned = [&](size_t i) { return longitudes[i] - around * std::floor(longitudes[i] / around); };
  std::vector<size_t> ascending(count);
  std::iota(ascending.begin(), ascending.end(), size_t{0});
  std::ranges::sort(ascending, {}, turned);
  std::vector<double> gaps;  // behind each longitude, in ascending order
  for (size_t i = 0; i < count; ++i) {
    const double next = i + 1 < count ? turned(ascending[i + 1]) : turned(ascending[0]) + around;
    gaps.push_back(next - turned(ascending[i]));
  }
  const auto widest = static_cast<size_t>(std::ranges::max_element(gaps) - gaps.begin());
  LongitudeCircle circle;
  for (size_t i = 1; i <= count; ++i) {
    const size_t at = (widest + i) % count;
    circle.order.push_back(ascending[at]);
    circle.degrees.push_back(turned(ascending[at]) + (widest + i < count ? 0 : around));
  }
  if (circle.degrees.front() >= around) {
    for (double& degrees : circle.degrees) degrees -= around;
  }
  double next_widest = 0;
  for (size_t i = 0; i < count; ++i) {
    if (i != widest) next_widest = std::max(next_widest, gaps[i]);
  }
  circle.is_closed = count == 1 || gaps[widest] <= widest_over_next * next_widest;
  return circle;
}

}  // namespace terrace::data
