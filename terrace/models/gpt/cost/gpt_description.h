// Describes the GPTs of a configuration to planners.
#pragma once

#include "terrace/schedule/description.h"

namespace terrace::models::gpt {

class GptDescription : public schedule::Description {
 public:
  schedule::UnitTable unit_table(const config::Config& config,
                                 const schedule::UnitTableOptions& options) const override;
  schedule::SampleSizes sample_sizes(const config::Config& config) const override;
};

}  // namespace terrace::models::gpt
