// Asks the family that the configuration names.
#include "terrace/models/cost/unit_table.h"

#include "terrace/base/error.h"
#include "terrace/models/gpt/cost/unit_table.h"

namespace terrace::models {

schedule::UnitTable unit_table(const config::ModelConfig& config, const schedule::UnitTableOptions& options) {
  if (config.family != "gpt") {
    throw UserError::of("model.family = \"{}\" is not built yet; use \"gpt\"", config.family);
  }
  return gpt::unit_table(config, options);
}

}  // namespace terrace::models
