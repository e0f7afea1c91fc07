// Errors, and how spreads fit them, of more predictions than fit into memory, such as those of fields.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "terrace/ensemble/uncertainty.h"

namespace terrace::ensemble {

// Adds up predictions one after another in a memory that does not grow with their number: 0.2 MiB and some ten thousand
// pairs of classes. Every mean is weighted, such as by the cosine of a latitude.
class StreamedCalibration {
 public:
  // Deviations are multiplied by the scale.
  explicit StreamedCalibration(double scale = 1);

  // Weights are above 0. A label or mean that is not finite is left out.
  void add(double mean, double deviation, double label, double weight);

  // Returns the figures of calibration() where all weights are 1. ENCE's bins are cut in proportion between deviations
  // that differ by less than 2.2%, and the rank correlation takes errors, and deviations, that differ by less than 9%
  // as equal.
  Calibration figures() const;
  // Fitted to what was added, to 0.3%; 1 where no deviation is above 0.
  double fitted_scale() const;

 private:
  struct DeviationClass {
    double weight = 0, variance = 0, square = 0;
  };
  double ence() const;
  double spearman() const;
  double area_at(double scale) const;

  double scale_;
  int64_t count_ = 0;
  double weight_ = 0, absolute_ = 0, square_ = 0;
  // Sums over the predictions whose deviation is above 0.
  double spread_weight_ = 0, variance_ = 0, likelihood_ = 0;
  std::vector<double> needed_;                       // weight by the first interval that holds the label
  std::vector<double> ratios_;                       // weight by the class of |error| / deviation
  std::vector<DeviationClass> deviations_;           // by class
  std::unordered_map<uint64_t, double> joint_ = {};  // weight by the classes of |error| and deviation
};

}  // namespace terrace::ensemble
