// Divides what repeated times show into a spread, pauses and slow ranks.
#include "terrace/measure/fit_noise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

namespace terrace::measure {
namespace {

constexpr double slow_from = 1.05;  // times the median of all ranks
// The bounds of machine::noise_keys().
constexpr double most_spread = 0.3, most_slow = 0.5, most_slow_by = 4, least_between = 1, most_between = 1e6;

double three_digits(double value) { return std::stod(fmt::format("{:.3g}", value)); }

// The value below which so large a share of the ordered values lies.
double quantile(const std::vector<double>& ordered, double share) {
  const double place = share * static_cast<double>(ordered.size() - 1);
  const auto below = static_cast<size_t>(place);
  return std::lerp(ordered[below], ordered[std::min(below + 1, ordered.size() - 1)],
                   place - static_cast<double>(below));
}

}  // namespace

RankTimes summarize(std::vector<double> times) {
  // The quartiles of a normal distribution are so many standard deviations apart.
  constexpr double between_quartiles = 1.349;
  std::ranges::sort(times);
  RankTimes rank{.median = quantile(times, 0.5), .seconds = std::accumulate(times.begin(), times.end(), 0.0)};
  rank.spread = (quantile(times, 0.75) - quantile(times, 0.25)) / between_quartiles / rank.median;
  const double least = rank.median * (1.5 + 10 * rank.spread);
  for (auto time = times.rbegin(); time != times.rend() && *time > least; ++time) {
    if ((rank.pauses + 1) * least_between > rank.seconds) break;
    ++rank.pauses;
    rank.pause_seconds += *time - rank.median;
  }
  return rank;
}

machine::Noise fit_noise(const std::vector<RankTimes>& ranks) {
  RankTimes all;
  std::vector<double> medians;
  for (const RankTimes& rank : ranks) {
    all.spread += rank.spread / static_cast<double>(ranks.size());
    all.seconds += rank.seconds;
    all.pauses += rank.pauses;
    all.pause_seconds += rank.pause_seconds;
    medians.push_back(rank.median);
  }
  machine::Noise noise{.instruction_spread = std::min(most_spread, three_digits(all.spread))};
  if (all.pauses > 0) {
    noise.pause_every_seconds = std::clamp(three_digits(all.seconds / all.pauses), least_between, most_between);
    noise.pause_seconds = std::min(three_digits(all.pause_seconds / all.pauses), 0.1 * noise.pause_every_seconds);
  }
  std::ranges::sort(medians);
  const double median = quantile(medians, 0.5);
  double slow = 0, longer = 0;
  for (const double one : medians) {
    if (one <= slow_from * median) continue;
    ++slow;
    longer += one / median - 1;
  }
  if (slow > 0) {
    noise.slow_devices = std::min(most_slow, three_digits(slow / static_cast<double>(ranks.size())));
    noise.slow_by = std::min(most_slow_by, three_digits(longer / slow));
  }
  return noise;
}

}  // namespace terrace::measure
