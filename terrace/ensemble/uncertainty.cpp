// Computes calibration from errors in units of their deviations.
#include "terrace/ensemble/uncertainty.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/ensemble/calibration_curve.h"

namespace terrace::ensemble {
namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN();

struct Judged {
  double error, deviation;  // the deviation above 0
};

std::vector<Judged> judged(const Distribution& predicted, std::span<const double> labels) {
  TERRACE_CHECK(predicted.mean.size() == labels.size() && predicted.deviation.size() == labels.size(),
                "{} predictions with {} deviations for {} labels", predicted.mean.size(), predicted.deviation.size(),
                labels.size());
  std::vector<Judged> all;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (predicted.deviation[i] > 0) all.push_back({predicted.mean[i] - labels[i], predicted.deviation[i]});
  }
  return all;
}

// Returns for each prediction the smallest central interval that holds its label, as the share of labels that is
// expected in it; ascending.
std::vector<double> needed_intervals(const std::vector<Judged>& all) {
  std::vector<double> needed;
  for (const Judged& one : all) needed.push_back(std::erf(std::abs(one.error) / one.deviation / std::numbers::sqrt2));
  std::ranges::sort(needed);
  return needed;
}

double observed_share(const std::vector<double>& needed, double expected) {
  return static_cast<double>(std::ranges::upper_bound(needed, expected) - needed.begin()) /
         static_cast<double>(needed.size());
}

double area_of(const std::vector<double>& needed) {
  std::vector<double> observed;
  for (int64_t i = 0; i < calibration_intervals; ++i) {
    observed.push_back(observed_share(needed, expected_share(i, calibration_intervals)));
  }
  return miscalibration_area(observed);
}

// Cuts predictions, sorted by deviation, into bins that have as many each, give or take one.
std::vector<SpreadBin> bins_of(std::vector<Judged> all) {
  std::ranges::stable_sort(all, std::ranges::less{}, &Judged::deviation);
  const size_t count = std::min(ence_bins, all.size());
  std::vector<SpreadBin> bins;
  for (size_t bin = 0; bin < count; ++bin) {
    const size_t begin = bin * all.size() / count, end = (bin + 1) * all.size() / count;
    double variance = 0, square = 0;
    for (size_t i = begin; i < end; ++i) {
      variance += all[i].deviation * all[i].deviation;
      square += all[i].error * all[i].error;
    }
    const auto size = static_cast<double>(end - begin);
    bins.push_back({.count = static_cast<int64_t>(end - begin),
                    .deviation = std::sqrt(variance / size),
                    .rmse = std::sqrt(square / size)});
  }
  return bins;
}

double ence_of(const std::vector<SpreadBin>& bins) {
  double sum = 0;
  for (const SpreadBin& bin : bins) sum += std::abs(bin.deviation - bin.rmse) / bin.deviation;
  return sum / static_cast<double>(bins.size());
}

// The ranks of values, from 0; values that are equal share the mean of their ranks.
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, std::ranges::less{}, [&](size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = static_cast<double>(begin + end - 1) / 2;
    begin = end;
  }
  return ranks;
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const auto mean = [](const std::vector<double>& list) {
    return std::accumulate(list.begin(), list.end(), 0.0) / static_cast<double>(list.size());
  };
  const double mean_a = mean(a), mean_b = mean(b);
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : none;
}

double spearman_of(const std::vector<Judged>& all) {
  std::vector<double> errors, deviations;
  for (const Judged& one : all) {
    errors.push_back(std::abs(one.error));
    deviations.push_back(one.deviation);
  }
  return correlation(ranks_of(errors), ranks_of(deviations));
}

}  // namespace

Distribution combined(const std::vector<std::vector<double>>& members,
                      const std::vector<std::vector<double>>& variances) {
  TERRACE_CHECK(!members.empty() && (variances.empty() || variances.size() == members.size()),
                "{} members with {} variances", members.size(), variances.size());
  const auto count = static_cast<double>(members.size());
  Distribution result;
  for (size_t i = 0; i < members.front().size(); ++i) {
    double mean = 0, squares = 0, predicted = 0;
    for (const std::vector<double>& member : members) mean += member.at(i) / count;
    for (const std::vector<double>& member : members) squares += (member[i] - mean) * (member[i] - mean);
    for (const std::vector<double>& variance : variances) predicted += variance.at(i) / count;
    const double spread = members.size() > 1 ? squares / (count - 1) * (1 + 1 / count) : 0;
    result.mean.push_back(mean);
    result.deviation.push_back(std::sqrt(spread + predicted));
  }
  return result;
}

Calibration calibration(const Distribution& predicted, std::span<const double> labels) {
  const std::vector<Judged> all = judged(predicted, labels);
  Calibration result{.count = std::ssize(labels)};
  if (labels.empty()) {
    result = {.mae = none, .rmse = none};
  } else {
    double absolute = 0, square = 0;
    for (size_t i = 0; i < labels.size(); ++i) {
      const double error = predicted.mean[i] - labels[i];
      absolute += std::abs(error);
      square += error * error;
    }
    result.mae = absolute / static_cast<double>(labels.size());
    result.rmse = std::sqrt(square / static_cast<double>(labels.size()));
  }
  if (all.empty()) {
    result.miscalibration_area = result.sharpness = result.ence = result.nll = result.spearman = none;
    return result;
  }
  double variance = 0, nll = 0;
  for (const Judged& one : all) {
    const double own = one.deviation * one.deviation;
    variance += own;
    nll += (std::log(2 * std::numbers::pi * own) + one.error * one.error / own) / 2;
  }
  result.miscalibration_area = area_of(needed_intervals(all));
  result.sharpness = std::sqrt(variance / static_cast<double>(all.size()));
  result.ence = ence_of(bins_of(all));
  result.nll = nll / static_cast<double>(all.size());
  result.spearman = spearman_of(all);
  return result;
}

double fitted_scale(const Distribution& predicted, std::span<const double> labels) {
  const std::vector<Judged> all = judged(predicted, labels);
  if (all.empty()) return 1;
  return scale_of_least_area([&](double scale) {
    std::vector<Judged> own = all;
    for (Judged& one : own) one.deviation *= scale;
    return area_of(needed_intervals(own));
  });
}

Distribution scaled(Distribution predicted, double scale) {
  for (double& deviation : predicted.deviation) deviation *= scale;
  return predicted;
}

std::vector<std::pair<double, double>> coverage(const Distribution& predicted, std::span<const double> labels,
                                                int64_t intervals) {
  const std::vector<double> needed = needed_intervals(judged(predicted, labels));
  std::vector<std::pair<double, double>> shares;
  for (int64_t i = 0; i < intervals && !needed.empty(); ++i) {
    const double expected = expected_share(i, intervals);
    shares.emplace_back(expected, observed_share(needed, expected));
  }
  return shares;
}

std::vector<SpreadBin> spread_bins(const Distribution& predicted, std::span<const double> labels) {
  return bins_of(judged(predicted, labels));
}

Json json_of(const Calibration& calibration) {
  const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); };
  return {{"count", calibration.count},
          {"mae", number(calibration.mae)},
          {"rmse", number(calibration.rmse)},
          {"miscalibration_area", number(calibration.miscalibration_area)},
          {"sharpness", number(calibration.sharpness)},
          {"ence", number(calibration.ence)},
          {"nll", number(calibration.nll)},
          {"spearman", number(calibration.spearman)}};
}

}  // namespace terrace::ensemble
