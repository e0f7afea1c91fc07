// Says what the gradient noise scale of a run means for its batch.
//
// Source: McCandlish et al., "An Empirical Model of Large-Batch Training", arXiv 1812.06162, equation 2.11: to one
// loss, a batch of B samples takes 1 + N / B times the fewest steps and 1 + B / N times the fewest samples, where N is
// the noise scale. With B = N both are twice the fewest.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "terrace/observe/metrics.h"

namespace terrace::observe {

// The steps and the samples that a batch of `batch` samples takes to a loss, as a multiple of the fewest. All numbers
// are samples, above 0.
double steps_over_fewest(double noise_scale, double batch);
double samples_over_fewest(double noise_scale, double batch);

// The steps, and the samples of all steps, that a batch of `batch` samples takes to the loss that a batch of
// `reference` samples reaches, as a multiple of what that one takes.
double steps_ratio(double noise_scale, double batch, double reference);
double samples_ratio(double noise_scale, double batch, double reference);

struct NoiseScaleAtStep {
  int64_t step = 0;
  double samples = 0;
};

// The last one in the metrics that is a number; nothing where no step measured one.
std::optional<NoiseScaleAtStep> last_noise_scale(const RunMetrics& metrics);
// The last noise scale in a run's folder. Throws UserError, whose text goes behind the folder's name, where no step has
// such a number.
NoiseScaleAtStep read_noise_scale(const std::filesystem::path& folder);

// "96 sequences at step 300; twice the batch of 64 would take 70% of the steps and 1.4 times the sequences to the same
// loss". `batch` is 0 where it is not known or changes in the run; then there is nothing after the step.
std::string noise_scale_text(const NoiseScaleAtStep& noise, double batch, const std::string& samples);

}  // namespace terrace::observe
