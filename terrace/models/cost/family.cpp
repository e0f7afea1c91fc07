// Lists the families, for programs without torch.
#include "terrace/models/cost/family.h"

#include "terrace/base/error.h"
#include "terrace/models/gpt/cost/family.h"

namespace terrace::models {

const config::Families& planned_families() {
  static const config::Families list = {
#define TERRACE_FAMILY(name) &name::planned_family(),
#include "terrace/models/cost/families.def"
#undef TERRACE_FAMILY
  };
  return list;
}

schedule::UnitTable unit_table(const config::Config& config, const schedule::UnitTableOptions& options) {
  const auto* family = dynamic_cast<const PlannedFamily*>(config.family);
  TERRACE_CHECK(family != nullptr, "a configuration without a family of models");
  return family->unit_table(config, options);
}

}  // namespace terrace::models
