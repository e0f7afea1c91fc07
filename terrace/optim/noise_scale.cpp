// Solves for the two terms of the expected squared norm and averages them.
#include "terrace/optim/noise_scale.h"

#include <cmath>
#include <limits>

namespace terrace::optim {

void NoiseScale::add(const GradientSquares& squares) {
  const double inverse_large = 1 / squares.samples;
  const double of_noise = (squares.small - squares.large) / (squares.inverse_samples - inverse_large);
  const double of_signal = squares.large - of_noise * inverse_large;
  if (!std::isfinite(of_noise) || !std::isfinite(of_signal)) return;
  noise = noise_scale_memory * noise + (1 - noise_scale_memory) * of_noise;
  signal = noise_scale_memory * signal + (1 - noise_scale_memory) * of_signal;
  ++measurements;
}

double NoiseScale::samples() const {
  return noise > 0 && signal > 0 ? noise / signal : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace terrace::optim
