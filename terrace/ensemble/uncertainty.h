// Mean and spread of an ensemble's predictions, and how well the spread tells the errors.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "terrace/base/text/json.h"

namespace terrace::ensemble {

// n predictions: a normal distribution each.
struct Distribution {
  std::vector<double> mean = {}, deviation = {};  // [n]
};

// Combines M members' predictions [M][n] and the variances that they predict themselves [M][n], or none. The mean is
// that of the members; the variance is theirs (divided by M - 1) times 1 + 1/M, plus the mean of the predicted
// variances, and the deviation its root. With one member and no variances the deviation is 0.
Distribution combined(const std::vector<std::vector<double>>& members,
                      const std::vector<std::vector<double>>& variances);

// Errors, and how the deviations fit them. Everything but mae and rmse is of predictions whose deviation is above 0;
// NaN where there are none.
struct Calibration {
  int64_t count = 0;
  double mae = 0, rmse = 0;
  // The area between the expected and the observed shares of labels in central intervals, over 100 of them, evenly from
  // 0 to 1 (Tran et al., arXiv 1912.10066): 0 is perfect, 0.5 the worst.
  double miscalibration_area = 0;
  double sharpness = 0;  // root of the mean variance
  // Expected normalised calibration error over 10 bins of predictions, sorted by deviation: the mean of
  // |sharpness - rmse| / sharpness in each (Levi et al., arXiv 1905.11659).
  double ence = 0;
  double nll = 0;       // mean negative log likelihood
  double spearman = 0;  // rank correlation of |error| and deviation; ties have their mean rank; NaN where all are equal
};

Calibration calibration(const Distribution& predicted, std::span<const double> labels);

// The number by which all deviations are multiplied so that the miscalibration area of these predictions is smallest; 1
// where no deviation is above 0.
double fitted_scale(const Distribution& predicted, std::span<const double> labels);
Distribution scaled(Distribution predicted, double scale);

// Expected and observed shares of labels in so many central intervals, for a plot: [(expected, observed)].
std::vector<std::pair<double, double>> coverage(const Distribution& predicted, std::span<const double> labels,
                                                int64_t intervals = 100);

// Predictions whose deviations are like each other.
struct SpreadBin {
  int64_t count = 0;
  double deviation = 0;  // root of the mean variance
  double rmse = 0;
};
// The 10 bins of Calibration::ence, by ascending deviation; fewer where there are fewer deviations above 0.
std::vector<SpreadBin> spread_bins(const Distribution& predicted, std::span<const double> labels);

// The figures by the names of the members of Calibration; NaN as null.
Json json_of(const Calibration& calibration);

}  // namespace terrace::ensemble
