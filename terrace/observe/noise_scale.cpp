// Reads noise scales from metrics, and compares batches by them.
#include "terrace/observe/noise_scale.h"

#include <fmt/format.h>

#include <cmath>

#include "terrace/base/error.h"
#include "terrace/base/text/units.h"

namespace terrace::observe {

double steps_over_fewest(double noise_scale, double batch) { return 1 + noise_scale / batch; }

double samples_over_fewest(double noise_scale, double batch) { return 1 + batch / noise_scale; }

double steps_ratio(double noise_scale, double batch, double reference) {
  return steps_over_fewest(noise_scale, batch) / steps_over_fewest(noise_scale, reference);
}

double samples_ratio(double noise_scale, double batch, double reference) {
  return samples_over_fewest(noise_scale, batch) / samples_over_fewest(noise_scale, reference);
}

std::optional<NoiseScaleAtStep> last_noise_scale(const RunMetrics& metrics) {
  for (auto it = metrics.steps.rbegin(); it != metrics.steps.rend(); ++it) {
    const std::optional<double>& samples = it->second.noise_scale;
    if (samples && std::isfinite(*samples)) return NoiseScaleAtStep{it->first, *samples};
  }
  return std::nullopt;
}

NoiseScaleAtStep read_noise_scale(const std::filesystem::path& folder) {
  const RunMetrics metrics = read_metrics(folder);
  if (const auto last = last_noise_scale(metrics)) return *last;
  int64_t measured = 0;
  for (const auto& [_, step] : metrics.steps) measured += step.noise_scale.has_value();
  if (measured == 0) {
    throw UserError::of(
        "has no noise scale: none of the {} steps in {} measured it; train with --set train.noise_scale_every=10, or "
        "give a number of samples",
        format_count(std::ssize(metrics.steps)), folder.string());
  }
  throw UserError::of(
      "has no noise scale: the noise hid the gradient in all {} measurements in {}, so it is far above the batch; "
      "train "
      "longer or with a larger train.global_batch, or give a number of samples",
      format_count(measured), folder.string());
}

std::string noise_scale_text(const NoiseScaleAtStep& noise, double batch, const std::string& samples) {
  std::string text = fmt::format("{:.4g} {} at step {}", noise.samples, samples, format_count(noise.step));
  if (batch <= 0) return text;
  return text + fmt::format(
                    "; twice the batch of {:.0f} would take {:.0f}% of the steps and {:.2f} times the {} to the "
                    "same loss",
                    batch, 100 * steps_ratio(noise.samples, 2 * batch, batch),
                    samples_ratio(noise.samples, 2 * batch, batch), samples);
}

}  // namespace terrace::observe
