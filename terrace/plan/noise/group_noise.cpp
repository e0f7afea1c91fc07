// Integrates distribution functions of the largest of several variables.
#include "terrace/plan/noise/group_noise.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "terrace/base/random.h"

namespace terrace::plan {
namespace {

constexpr uint32_t table_bits = 12, table_size = 1U << table_bits, exact_parts = 16;

// The moments of a variable whose distribution function is 0 at `least` and 1 at `most`, by Simpson's rule: the mean is
// most - integral of F, and the second moment about `most` is twice the integral of (most - x) F.
template <typename Distribution>
Moments moments_of(double least, double most, const Distribution& distribution) {
  constexpr int parts = 1000;
  const double width = (most - least) / parts;
  double below = 0, square = 0;
  for (int i = 0; i <= parts; ++i) {
    const double x = least + width * i, weight = i == 0 || i == parts ? 1 : i % 2 == 1 ? 4 : 2;
    const double probability = width / 3 * weight * distribution(x);
    below += probability;
    square += 2 * (most - x) * probability;
  }
  return {most - below, std::max(0.0, square - below * below)};
}

constexpr double far = 9;  // standard deviations beyond which a normal variable does not come

}  // namespace

double normal_probability(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

Moments largest_normal(int64_t count) {
  if (count == 1) return {0, 1};
  return moments_of(-far, far, [&](double x) { return std::pow(normal_probability(x), static_cast<double>(count)); });
}

LargerOfTwo larger_of(const Moments& first, const Moments& second, double covariance) {
  const double difference = first.mean - second.mean;
  const double spread = std::sqrt(std::max(0.0, first.variance + second.variance - 2 * covariance));
  if (spread <= 1e-9 * std::abs(difference) || spread == 0) {
    return difference >= 0 ? LargerOfTwo{first, 1} : LargerOfTwo{second, 0};
  }
  const double z = difference / spread, larger = normal_probability(z);
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  // Moments about the mean of the second one.
  const double mean = difference * larger + spread * density;
  const double square = (difference * difference + first.variance) * larger + second.variance * (1 - larger) +
                        difference * spread * density;
  return {{second.mean + mean, std::max(0.0, square - mean * mean)}, larger};
}

GroupNoise::GroupNoise(const machine::Noise& noise, int64_t ranks)
    : noise_(noise), ranks_(ranks), largest_(largest_normal(ranks)) {}

double GroupNoise::probability_of_slow(int64_t slow) const {
  const double share = noise_.slow_devices;
  if (share == 0) return slow == 0 ? 1 : 0;
  const auto n = static_cast<double>(ranks_), k = static_cast<double>(slow);
  const double choices = std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
  return std::exp(choices + k * std::log(share) + (n - k) * std::log1p(-share));
}

Moments GroupNoise::time(int64_t slow) const {
  const double spread = noise_.instruction_spread, longer = slow > 0 ? 1 + noise_.slow_by : 1;
  if (spread == 0) return {longer, 0};
  if (slow == 0 || slow == ranks_) {
    return {longer * (1 + spread * largest_.mean), longer * longer * spread * spread * largest_.variance};
  }
  const auto fast = static_cast<double>(ranks_ - slow), of_slow = static_cast<double>(slow);
  return moments_of(1 - far * spread, longer * (1 + far * spread), [&](double x) {
    return std::pow(normal_probability((x - 1) / spread), fast) *
           std::pow(normal_probability((x / longer - 1) / spread), of_slow);
  });
}

Moments GroupNoise::slow_time() const {
  const double any = 1 - probability_of_slow(0);
  Moments sum;
  double counted = 0;
  for (int64_t slow = 1; slow <= ranks_ && counted < (1 - 1e-9) * any; ++slow) {
    const double share = probability_of_slow(slow);
    const Moments one = time(slow);
    sum.mean += share * one.mean;
    sum.variance += share * one.variance;
    counted += share;
  }
  return {sum.mean / counted, sum.variance / counted};
}

double GroupNoise::mean_time() const {
  const double none = probability_of_slow(0), fast = none * time(0).mean;
  return noise_.has_slow_devices() ? fast + (1 - none) * slow_time().mean : fast;
}

GroupPauses GroupNoise::pauses(double seconds) const {
  if (!noise_.has_pauses()) return {};
  const double of_all = static_cast<double>(ranks_) * seconds / noise_.pause_every_seconds;
  // A rank that pauses takes its own time, and not the largest of the group.
  const double largest = noise_.instruction_spread * largest_.mean * seconds;
  return {-std::expm1(-of_all), std::max(0.0, noise_.pause_seconds - largest)};
}

LargestNormal::LargestNormal(int64_t count) : power_(1 / static_cast<double>(count)) {
  for (uint32_t i = exact_parts; i <= table_size - exact_parts; ++i) {
    table_.push_back(normal_quantile(std::pow(static_cast<double>(i) / table_size, power_)));
  }
}

double LargestNormal::draw(uint32_t bits) const {
  const uint32_t part = bits >> (32 - table_bits);
  if (part < exact_parts || part >= table_size - exact_parts) {
    return normal_quantile(std::pow((static_cast<double>(bits) + 0.5) * 0x1.0p-32, power_));
  }
  const double within = static_cast<double>(bits << table_bits) * 0x1.0p-32;
  const double low = table_[part - exact_parts], high = table_[part - exact_parts + 1];
  return low + within * (high - low);
}

}  // namespace terrace::plan
