// The unit table of a vision transformer, and the samples that a planner takes.
#pragma once

#include "terrace/models/vit/settings/config.h"
#include "terrace/schedule/description.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::models::vit {

schedule::UnitTable unit_table(const ModelConfig& config, const schedule::UnitTableOptions& options);

class VitDescription : public schedule::Description {
 public:
  schedule::UnitTable unit_table(const config::Config& config,
                                 const schedule::UnitTableOptions& options) const override;
  // The fields of all channels, of all outputs at the time that is predicted, and of climatologies that the model
  // reads; the loss reads the outputs at the last time of the inputs too.
  schedule::SampleBytes sample_bytes(const config::Config& config) const override;
};

}  // namespace terrace::models::vit
