// Messages of the log about the stages of a pipeline: the micro-batches of a step, and how long the stages idle.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/config/config.h"

namespace terrace::run {

struct IdleStages {
  std::string text;
  bool is_warning = false;  // because there are fewer micro-batches than stages
  bool operator==(const IdleStages&) const = default;
};

// Lines about the steps from `step` on, with the batch of its phase, if all stages cost the same. Has a second line,
// about the full batch, while a batch-size ramp-up is under way. Empty without a pipeline.
std::vector<IdleStages> idle_stages(const config::Config& config, int64_t data_ranks, int64_t step);

// Logs these lines.
void log_idle_stages(const config::Config& config, int64_t data_ranks, int64_t step);

}  // namespace terrace::run
