// The time of one computation on ranks that wait for each other: the largest of their times, with the noise of their
// machine. docs/cost_model.md has the formulas.
#pragma once

#include <cstdint>
#include <vector>

#include "terrace/machine/noise.h"

namespace terrace::plan {

struct Moments {
  double mean = 0, variance = 0;
};

// The moments of the largest of so many independent draws of the standard normal distribution, by integration of their
// distribution function: 0.5642 and 1.4236 are the means of 2 and of 8.
Moments largest_normal(int64_t count);

// The moments of the larger of two normal variables with this covariance (Clark 1961, doi 10.1287/opre.9.2.145), and
// the probability that the first one is larger.
struct LargerOfTwo {
  Moments moments;
  double first_is_larger = 1;
};
LargerOfTwo larger_of(const Moments& first, const Moments& second, double covariance);

// The distribution function of the standard normal distribution.
double normal_probability(double z);

// How pauses make a computation longer on a group of ranks, on average.
struct GroupPauses {
  double number = 0;   // expected number of computations with a pause: below 1
  double seconds = 0;  // that such a computation takes longer
};

// A group of ranks that wait for each other in every computation.
class GroupNoise {
 public:
  GroupNoise(const machine::Noise& noise, int64_t ranks);

  // The probability that `slow` of the ranks are slow.
  double probability_of_slow(int64_t slow) const;
  // The moments of the time of a computation of one second, without pauses, if `slow` of the ranks are slow.
  Moments time(int64_t slow) const;
  // These moments on average over groups with at least one slow rank; some devices must be slow.
  Moments slow_time() const;
  // The mean over all groups.
  double mean_time() const;
  // Pauses in a computation of so many seconds.
  GroupPauses pauses(double seconds) const;

 private:
  machine::Noise noise_;
  int64_t ranks_;
  Moments largest_;
};

// Draws the largest of a number of independent normal variables at once, by the quantile function of their maximum: the
// value below which it lies with probability p is that of one variable with probability p^(1/count).
class LargestNormal {
 public:
  explicit LargestNormal(int64_t count);
  // For 32 random bits; between the outermost 16 of 4,096 equal parts of probabilities by interpolation in a table,
  // whose error is below 0.001.
  double draw(uint32_t bits) const;

 private:
  double power_;
  std::vector<double> table_;
};

}  // namespace terrace::plan
