// The part of a family that describes its models without building them.
#pragma once

#include "terrace/config/config.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::schedule {

// All functions are called with configurations of the family.
class Description {
 public:
  virtual ~Description() = default;

  virtual UnitTable unit_table(const config::Config& config, const UnitTableOptions& options) const = 0;
  // Items of one sample (config::Family::items), such as the tokens of a sequence.
  virtual int64_t items_of_sample(const config::Config&) const { return 1; }
};

// Of the configuration's family.
const Description& description_of(const config::Config& config);
UnitTable unit_table(const config::Config& config, const UnitTableOptions& options = {});

}  // namespace terrace::schedule
