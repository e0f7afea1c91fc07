// Takes medians by selection in copies of the windows, which are short.
#include "terrace/optim/spike_detector.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace terrace::optim {
namespace {

double median_of(std::vector<double> numbers) {
  const auto middle = numbers.begin() + std::ssize(numbers) / 2;
  std::ranges::nth_element(numbers, middle);
  if (numbers.size() % 2 == 1) return *middle;
  return (*std::max_element(numbers.begin(), middle) + *middle) / 2;
}

}  // namespace

Deviation deviation_of(double value, const std::deque<double>& numbers) {
  const double median = median_of({numbers.begin(), numbers.end()});
  std::vector<double> distances;
  for (const double number : numbers) distances.push_back(std::abs(number - median));
  constexpr double of_normal_numbers = 1.4826, least_share = 0.01;
  const double least = std::max(least_share * std::abs(median), std::numeric_limits<double>::min());
  return {.value = value,
          .median = median,
          .deviation = std::max(of_normal_numbers * median_of(std::move(distances)), least)};
}

std::optional<Spike> SpikeDetector::find(double loss, double gradient_norm) const {
  if (std::ssize(losses_) < window_) return std::nullopt;
  Spike spike{.loss = deviation_of(loss, losses_), .gradient_norm = deviation_of(gradient_norm, gradient_norms_)};
  spike.of_loss = spike.loss.above() > threshold_;
  spike.of_gradient_norm = spike.gradient_norm.above() > threshold_;
  if (!spike.of_loss && !spike.of_gradient_norm) return std::nullopt;
  return spike;
}

void SpikeDetector::add(double loss, double gradient_norm) {
  losses_.push_back(loss);
  gradient_norms_.push_back(gradient_norm);
  restore(std::move(losses_), std::move(gradient_norms_));
}

void SpikeDetector::restore(std::deque<double> losses, std::deque<double> gradient_norms) {
  losses_ = std::move(losses);
  gradient_norms_ = std::move(gradient_norms);
  for (std::deque<double>* numbers : {&losses_, &gradient_norms_}) {
    while (std::ssize(*numbers) > window_) numbers->pop_front();
  }
}

}  // namespace terrace::optim
