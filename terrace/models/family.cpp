// Lists the families, and builds the model of a configuration.
#include "terrace/models/family.h"

#include "terrace/base/error.h"
#include "terrace/models/gpt/family.h"

namespace terrace::models {

const config::Families& families() {
  static const config::Families list = {
#define TERRACE_FAMILY(name) &name::family(),
#include "terrace/models/cost/families.def"
#undef TERRACE_FAMILY
  };
  return list;
}

const Family& family_of(const config::Config& config) {
  const auto* family = dynamic_cast<const Family*>(config.family);
  TERRACE_CHECK(family != nullptr, "a configuration whose family builds no models");
  return *family;
}

std::unique_ptr<Model> build_model(const config::Config& config, const nn::Build& build) {
  std::unique_ptr<Model> model = family_of(config).build(config, build);
  mark_parameters(*model, unit_table(config));
  return model;
}

}  // namespace terrace::models
