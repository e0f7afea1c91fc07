// The calibration curve, the area beside it, and the scale of the spread that makes this area smallest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace terrace::ensemble {

inline constexpr int64_t calibration_intervals = 100;
inline constexpr size_t ence_bins = 10;  // of Calibration::ence

// The share of labels that is expected in the central interval with this number, from 0 to 1.
double expected_share(int64_t interval, int64_t intervals);

// The area between the diagonal and the lines through the observed shares [calibration_intervals].
double miscalibration_area(std::span<const double> observed);

// The scale from 1e-4 to 1e4 with the least area, to 0.05%. `area_at` gives the area where deviations are multiplied by
// a scale.
double scale_of_least_area(const std::function<double(double)>& area_at);

}  // namespace terrace::ensemble
