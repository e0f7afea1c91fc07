// The gradient noise scale of a run: an estimate from the squared norms of gradients of few and of many samples.
//
// Source: McCandlish et al., "An Empirical Model of Large-Batch Training", arXiv 1812.06162, appendix A.1. A mean
// gradient over b samples has the expected squared norm |G|^2 + tr(S) / b, where G is the gradient of the whole data
// and S the covariance of the gradients of single samples. Two batches give both terms; the noise scale tr(S) / |G|^2
// is the number of samples at which they are equal.
#pragma once

#include <cstdint>

namespace terrace::optim {

// The squared norms of gradients of one step; all gradients are means over their samples.
struct GradientSquares {
  double small = 0;            // the mean of the squared norms of gradients of small batches
  double inverse_samples = 0;  // the mean of 1 / samples of these batches
  double large = 0;            // the squared norm of the gradient of the whole step
  double samples = 0;          // of the whole step
};

// The share of the earlier average that an average keeps at each measurement.
inline constexpr double noise_scale_memory = 0.95;

struct NoiseScale {
  // Exponential averages that begin at 0, so that only their ratio has a meaning.
  double noise = 0;   // of tr(S)
  double signal = 0;  // of |G|^2
  int64_t measurements = 0;

  // A measurement without a result, as where a gradient is not finite or both batches have the same size, changes
  // nothing.
  void add(const GradientSquares& squares);
  // The gradient noise scale in samples. NaN before the first measurement, and while the averages are not both above 0,
  // which means that the noise hides the gradient.
  double samples() const;

  bool operator==(const NoiseScale&) const = default;
};

}  // namespace terrace::optim
