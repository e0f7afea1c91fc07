// Compares runs with different global batches at the same loss, by the gradient noise scale (observe/noise_scale.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/plan/layouts/best.h"
#include "terrace/plan/layouts/scaling.h"
#include "terrace/plan/prediction.h"

namespace terrace::plan {

struct GivenNoiseScale {
  double samples = 0;       // above 0
  std::string source = {};  // ", from runs/tiny at step 300"; "" where it was given as a number
};

// Reads the noise scale from "96", a number of samples above 0, or from the folder of a run
// (observe::read_noise_scale). Throws UserError for anything else; the error's text goes behind the name of the flag or
// key and its value.
GivenNoiseScale noise_scale_of(const std::string& text);

// The cost of a run up to a loss, as a multiple of the cost of a reference run up to the same loss.
struct SameLoss {
  double steps = 1, samples = 1, seconds = 1;
};
// `seconds` and `reference_seconds` are of a step.
SameLoss same_loss(double noise_scale, int64_t batch, double seconds, int64_t reference, double reference_seconds);

// Describe the configuration's global batch, and half and twice of it, by the noise scale.
Json json_of(const GivenNoiseScale& noise, int64_t batch);
std::string text_of(const GivenNoiseScale& noise, int64_t batch, const std::string& samples);

// Describe, beside the table of weak scaling, the steps, samples, time and device-hours to the same loss as with the
// first number of devices, and with how many devices the loss is reached first.
Json json_of(const GivenNoiseScale& noise, const Scaling& scaling);
std::string text_of(const GivenNoiseScale& noise, const Scaling& scaling, const std::string& samples);

// The fastest layout of a global batch, compared with the configuration's batch.
struct BatchLayout {
  int64_t batch = 0;
  Change layout = {};             // settings are the keys that differ from the configuration, the batch among them
  double steps = 1, samples = 1;  // as in SameLoss, to the configuration's batch
  // The time in which the layout comes as far as a step of the configuration's batch does.
  double seconds_of_reference_step = 0;
};

struct BestBatches {
  GivenNoiseScale noise = {};
  int64_t reference = 0;                   // the configuration's global batch
  std::vector<BatchLayout> batches = {};   // the fastest to the same loss first
  std::vector<std::string> left_out = {};  // sentences: why a batch has no layout
};

// The best layout (best.h) for each of the batches. Throws as best_layouts() does if none has a layout; the options'
// count has no effect.
BestBatches best_batches(const config::Config& config, const Target& target, const BestOptions& options,
                         const GivenNoiseScale& noise, const std::vector<int64_t>& batches);

Json json_of(const BestBatches& best, const Target& target);
std::string text_of(const BestBatches& best, const Target& target, const std::string& samples);

}  // namespace terrace::plan
