// Fits the figures of a machine's [noise] to repeated times of one computation on each rank.
#pragma once

#include <vector>

#include "terrace/machine/noise.h"

namespace terrace::measure {

// The times of one rank in short, so that ranks can send them to each other.
struct RankTimes {
  double median = 0;   // seconds of one computation
  double spread = 0;   // standard deviation over the median, by the quartiles, so that pauses do not count
  double seconds = 0;  // of all computations
  // Computations that took more than half of the median and ten standard deviations longer, and how much longer they
  // took together: the longest of these, at most one a second.
  double pauses = 0, pause_seconds = 0;
};

// There must be a time.
RankTimes summarize(std::vector<double> times);

// The figures within the bounds of a description: the mean spread of the ranks; all pauses of all ranks; and ranks
// whose median is more than a twentieth above the median of all ranks, as slow devices. A figure that was not seen is
// not stated. Numbers have three digits.
machine::Noise fit_noise(const std::vector<RankTimes>& ranks);

}  // namespace terrace::measure
