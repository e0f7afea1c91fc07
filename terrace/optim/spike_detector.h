// Finds steps whose loss or gradient norm jumps up, by medians, so that earlier spikes do not hide later ones.
//
// Source: the median absolute deviation as in Huber, "Robust Statistics" (1981), section 5.1; 1.4826 times it is the
// standard deviation of normal numbers. Chowdhery et al., "PaLM", arXiv 2204.02311, section 5.1, describes spikes, and
// that a run which goes back and leaves out the batches around them does not meet them again.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace terrace::optim {

// A number beside those of the steps before it.
struct Deviation {
  double value = 0;
  double median = 0;
  double deviation = 0;  // 1.4826 times the median absolute deviation, but at least a hundredth of the median's size

  double above() const { return (value - median) / deviation; }  // in deviations
};

// The deviation of a value from at least one number.
Deviation deviation_of(double value, const std::deque<double>& numbers);

struct Spike {
  Deviation loss, gradient_norm;
  bool of_loss = false, of_gradient_norm = false;  // which one is above the threshold
};

class SpikeDetector {
 public:
  // `threshold` is in deviations, `window` in steps.
  SpikeDetector(double threshold, int64_t window) : threshold_(threshold), window_(window) {}

  // Whether a step with these finite numbers is a spike. Nothing is one before the window is full.
  std::optional<Spike> find(double loss, double gradient_norm) const;
  // Adds a step whose update is made.
  void add(double loss, double gradient_norm);
  // Takes the numbers of an earlier start.
  void restore(std::deque<double> losses, std::deque<double> gradient_norms);

  const std::deque<double>& losses() const { return losses_; }
  const std::deque<double>& gradient_norms() const { return gradient_norms_; }

 private:
  double threshold_;
  int64_t window_;
  std::deque<double> losses_ = {}, gradient_norms_ = {};  // of the last steps, the latest last
};

}  // namespace terrace::optim
