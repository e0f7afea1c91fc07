// Counts predictions in classes of equal widths of their logarithms.
#include "terrace/ensemble/streamed_calibration.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>

#include "terrace/ensemble/calibration_curve.h"

namespace terrace::ensemble {
namespace {

constexpr double no_figure = std::numeric_limits<double>::quiet_NaN();

// Classes of numbers by their logarithms. Class 0 is for 0 alone, and what lies outside is in the outermost class.
struct Classes {
  double octaves, in_octave;  // on both sides of 1

  size_t count() const { return 2 + static_cast<size_t>(2 * octaves * in_octave); }
  size_t of(double value) const {
    if (value <= 0) return 0;
    return 1 + static_cast<size_t>((std::clamp(std::log2(value), -octaves, octaves) + octaves) * in_octave);
  }
  // The geometric middle.
  double value(size_t number) const {
    return number == 0 ? 0 : std::exp2((static_cast<double>(number) - 0.5) / in_octave - octaves);
  }
};

constexpr Classes deviation_classes{64, 32}, ratio_classes{16, 256}, rank_classes{64, 8};

// The first interval that holds a label whose error is so many deviations.
size_t first_interval(double ratio) {
  const double expected = std::erf(ratio / std::numbers::sqrt2);
  return static_cast<size_t>(std::ceil(expected * static_cast<double>(calibration_intervals - 1)));
}

// The miscalibration area of labels, given their weight by first interval; all labels together weigh `all`.
double area_of(const std::vector<double>& by_first_interval, double all) {
  std::vector<double> observed;
  double inside = 0;
  for (const double weight : by_first_interval) observed.push_back((inside += weight) / all);
  return miscalibration_area(observed);
}

// The mean rank, from 0, of the values of each class.
std::map<uint32_t, double> mean_ranks(const std::map<uint32_t, double>& weights) {
  std::map<uint32_t, double> ranks;
  double below = 0;
  for (const auto& [number, weight] : weights) {
    ranks[number] = below + weight / 2;
    below += weight;
  }
  return ranks;
}

}  // namespace

StreamedCalibration::StreamedCalibration(double scale)
    : scale_(scale),
      needed_(calibration_intervals, 0),
      ratios_(ratio_classes.count(), 0),
      deviations_(deviation_classes.count()) {}

void StreamedCalibration::add(double mean, double deviation, double label, double weight) {
  const double error = std::abs(mean - label);
  if (!std::isfinite(error)) return;
  ++count_;
  weight_ += weight;
  absolute_ += weight * error;
  square_ += weight * error * error;
  const double own = deviation * scale_;
  if (!(own > 0)) return;
  const double ratio = error / own;
  spread_weight_ += weight;
  variance_ += weight * own * own;
  likelihood_ += weight * (std::log(2 * std::numbers::pi * own * own) + ratio * ratio) / 2;
  needed_[first_interval(ratio)] += weight;
  ratios_[ratio_classes.of(ratio)] += weight;
  DeviationClass& of_deviation = deviations_[deviation_classes.of(own)];
  of_deviation.weight += weight;
  of_deviation.variance += weight * own * own;
  of_deviation.square += weight * error * error;
  // Ranks do not depend on the scale, and so they are the same to the last bit.
  joint_[uint64_t{rank_classes.of(error)} << 32U | rank_classes.of(deviation)] += weight;
}

Calibration StreamedCalibration::figures() const {
  Calibration result{.count = count_, .mae = absolute_ / weight_, .rmse = std::sqrt(square_ / weight_)};
  if (!(spread_weight_ > 0)) {
    result.miscalibration_area = result.sharpness = result.ence = result.nll = result.spearman = no_figure;
    return result;
  }
  result.miscalibration_area = area_of(needed_, spread_weight_);
  result.sharpness = std::sqrt(variance_ / spread_weight_);
  result.ence = ence();
  result.nll = likelihood_ / spread_weight_;
  result.spearman = spearman();
  return result;
}

double StreamedCalibration::ence() const {
  const double share = spread_weight_ / ence_bins;
  double sum = 0;
  DeviationClass bin;
  size_t done = 0;
  const auto close = [&] {
    if (bin.variance > 0) sum += std::abs(std::sqrt(bin.variance) - std::sqrt(bin.square)) / std::sqrt(bin.variance);
    bin = {};
    ++done;
  };
  for (DeviationClass left : deviations_) {
    while (left.weight > 0) {
      const double room = share - bin.weight;
      const bool is_last = done + 1 == ence_bins;
      const double part = is_last || left.weight <= room ? 1 : room / left.weight;
      bin.weight += part * left.weight;
      bin.variance += part * left.variance;
      bin.square += part * left.square;
      if (part == 1) break;
      left = {(1 - part) * left.weight, (1 - part) * left.variance, (1 - part) * left.square};
      close();
    }
  }
  close();
  return sum / static_cast<double>(done);
}

double StreamedCalibration::spearman() const {
  std::map<uint32_t, double> errors, deviations;
  for (const auto& [classes, weight] : joint_) {
    errors[static_cast<uint32_t>(classes >> 32U)] += weight;
    deviations[static_cast<uint32_t>(classes)] += weight;
  }
  const std::map<uint32_t, double> of_errors = mean_ranks(errors), of_deviations = mean_ranks(deviations);
  const double mean = spread_weight_ / 2;  // of all ranks, with ties as without
  double ab = 0, aa = 0, bb = 0;
  for (const auto& [classes, weight] : joint_) {
    const double a = of_errors.at(static_cast<uint32_t>(classes >> 32U)) - mean;
    const double b = of_deviations.at(static_cast<uint32_t>(classes)) - mean;
    ab += weight * a * b;
    aa += weight * a * a;
    bb += weight * b * b;
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : no_figure;
}

double StreamedCalibration::area_at(double scale) const {
  std::vector<double> weights(calibration_intervals, 0);
  for (size_t i = 0; i < ratios_.size(); ++i) {
    if (ratios_[i] > 0) weights[first_interval(ratio_classes.value(i) / scale)] += ratios_[i];
  }
  return area_of(weights, spread_weight_);
}

double StreamedCalibration::fitted_scale() const {
  if (!(spread_weight_ > 0)) return 1;
  return scale_of_least_area([this](double scale) { return area_at(scale); });
}

}  // namespace terrace::ensemble
