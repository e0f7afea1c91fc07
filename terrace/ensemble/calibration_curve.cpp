// Computes areas of polygons, and searches the scale with the smallest one.
#include "terrace/ensemble/calibration_curve.h"

#include <cmath>

#include "terrace/base/error.h"

namespace terrace::ensemble {

double expected_share(int64_t interval, int64_t intervals) {
  return static_cast<double>(interval) / static_cast<double>(intervals - 1);
}

double miscalibration_area(std::span<const double> observed) {
  TERRACE_CHECK(std::ssize(observed) == calibration_intervals, "{} observed shares", observed.size());
  constexpr double width = 1.0 / static_cast<double>(calibration_intervals - 1);
  double area = 0, before = 0;
  for (int64_t i = 0; i < calibration_intervals; ++i) {
    const double difference = observed[static_cast<size_t>(i)] - expected_share(i, calibration_intervals);
    if (i > 0) {
      const double sum = std::abs(before) + std::abs(difference);
      // Lines that cross the diagonal leave two triangles.
      const bool crosses = before * difference < 0;
      area += crosses ? width * (before * before + difference * difference) / (2 * sum) : width * sum / 2;
    }
    before = difference;
  }
  return area;
}

double scale_of_least_area(const std::function<double(double)>& area_at) {
  // The area is a step function of the scale with one valley: a coarse search, then finer ones around the best.
  double best = 0, width = std::log(1e4);
  for (int round = 0; round < 4; ++round) {
    constexpr int points = 41;
    double found = best, smallest = area_at(std::exp(best));
    for (int i = 0; i < points; ++i) {
      const double logarithm = best + width * (2.0 * i / (points - 1) - 1);
      if (const double area = area_at(std::exp(logarithm)); area < smallest) {
        smallest = area;
        found = logarithm;
      }
    }
    best = found;
    width /= (points - 1) / 4.0;
  }
  return std::exp(best);
}

}  // namespace terrace::ensemble
