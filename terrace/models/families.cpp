// Builds the model of a configuration.
#include "terrace/models/families.h"

#include "terrace/base/error.h"
#include "terrace/schedule/description.h"

namespace terrace::models {

std::unique_ptr<Model> build_model(const config::Config& config, const nn::Build& build) {
  TERRACE_CHECK(config.family != nullptr && config.family->model != nullptr,
                "a configuration whose family builds no models");
  std::unique_ptr<Model> model = config.family->model->build(config, build);
  mark_parameters(*model, schedule::unit_table(config), build.type);
  return model;
}

}  // namespace terrace::models
