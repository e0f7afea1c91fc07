// Describes the GPTs of a configuration to planners.
#pragma once

#include "terrace/schedule/description.h"

namespace terrace::models::gpt {

class GptDescription : public schedule::Description {
 public:
  schedule::UnitTable unit_table(const config::Config& config,
                                 const schedule::UnitTableOptions& options) const override;
  schedule::SampleSizes sample_sizes(const config::Config& config) const override;
  // A window and its last target, of 2 bytes a token or 4 for a vocabulary of more than 65,536.
  schedule::SampleBytes sample_bytes(const config::Config& config) const override;
  // Dropped probabilities need all keys of a query at once.
  schedule::ContextWork context_work(const config::Config& config) const override;
};

}  // namespace terrace::models::gpt
