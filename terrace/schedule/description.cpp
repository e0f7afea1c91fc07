// Finds the description of a configuration's model.
#include "terrace/schedule/description.h"

#include "terrace/base/error.h"
#include "terrace/config/family.h"

namespace terrace::schedule {

const Description& description_of(const config::Config& config) {
  TERRACE_CHECK(config.family != nullptr && config.family->description != nullptr, "no description of the model");
  return *config.family->description;
}

UnitTable unit_table(const config::Config& config, const UnitTableOptions& options) {
  return description_of(config).unit_table(config, options);
}

}  // namespace terrace::schedule
