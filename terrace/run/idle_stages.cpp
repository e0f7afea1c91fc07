// Describes how long the stages of a pipeline idle in a step of a given batch.
#include "terrace/run/idle_stages.h"

#include <fmt/format.h>

#include <algorithm>

#include "terrace/base/terminal/log.h"
#include "terrace/base/text/plural.h"
#include "terrace/config/family.h"
#include "terrace/config/names.h"
#include "terrace/config/phases.h"
#include "terrace/data/order/batch_ramp.h"
#include "terrace/schedule/description.h"
#include "terrace/schedule/pipeline/pipeline.h"
#include "terrace/schedule/rank_share.h"

namespace terrace::run {
namespace {

int64_t rounded_up(int64_t all, int64_t parts) { return (all + parts - 1) / parts; }

IdleStages idle_stages_of(const config::Config& config, int64_t data_ranks, int64_t samples, const std::string& when) {
  schedule::Pipeline pipeline = schedule::pipeline_of(config, data_ranks);
  const int64_t share = rounded_up(samples, data_ranks);
  pipeline.micro_batches = rounded_up(share, schedule::micro_batch_of(config, data_ranks));
  const bool is_estimate = !config.train.micro_batch_sizes.empty();
  const std::string each =
      (is_estimate ? "about " : "") + counted(pipeline.micro_batches, "micro-batch", "micro-batches") + " each" + when;
  if (pipeline.micro_batches < pipeline.stages) {
    const int64_t smaller = share / pipeline.stages;
    const bool takes_one = !schedule::description_of(config).why_one_micro_batch(config).empty();
    return {
        .text = fmt::format("{} stages with {}: most stages idle; {}", pipeline.stages, each,
                            takes_one     ? "use layout.pipeline = 1, as the model takes a step as one micro-batch"
                            : is_estimate ? "use smaller train.micro_batch_sizes"
                            : smaller > 0 ? fmt::format("use train.micro_batch = {} or less", smaller)
                                          : fmt::format("use a global_batch of {} or more, with train.micro_batch = 1",
                                                        pipeline.stages * data_ranks)),
        .is_warning = true};
  }
  return {.text = fmt::format("{} stages with {}, {}: the stages idle about {:.0f}% of a step", pipeline.stages,
                              config::name_of(pipeline.schedule), each, 100 * schedule::bubble_share(pipeline, {}))};
}

}  // namespace

std::vector<IdleStages> idle_stages(const config::Config& config, int64_t data_ranks, int64_t step) {
  if (config.layout.pipeline == 1) return {};
  const data::BatchRamp ramp(config.train, config.phases);
  const config::Config in = config::in_phase(config, config::phase_at(config, step));
  const int64_t now = ramp.batch_size(step), full = in.train.global_batch;
  const bool batch_varies = now != full || !config.phases.empty();
  std::vector<IdleStages> lines;
  for (const int64_t samples : {now, full}) {
    if (!lines.empty() && now == full) break;
    lines.push_back(
        idle_stages_of(in, data_ranks, samples,
                       batch_varies ? fmt::format(" in steps of {}", counted(samples, "sample")) : std::string()));
  }
  return lines;
}

void log_idle_stages(const config::Config& config, int64_t data_ranks, int64_t step) {
  for (const IdleStages& line : idle_stages(config, data_ranks, step)) {
    if (line.is_warning) {
      log_warning("{}", line.text);
    } else {
      log_info("{}", line.text);
    }
  }
}

}  // namespace terrace::run
