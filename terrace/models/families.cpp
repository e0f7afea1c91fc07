// Finds the parts of a configuration's family, and builds its model.
#include "terrace/models/families.h"

#include "terrace/base/error.h"
#include "terrace/models/exchange_of_family.h"
#include "terrace/models/forecast_of_family.h"
#include "terrace/models/graphs_of_family.h"
#include "terrace/models/text_of_family.h"
#include "terrace/schedule/description.h"

namespace terrace::models {

std::unique_ptr<Model> build_model(const config::Config& config, const nn::Build& build) {
  TERRACE_CHECK(config.family != nullptr && config.family->model != nullptr,
                "a configuration whose family builds no models");
  std::unique_ptr<Model> model = config.family->model->build(config, build);
  mark_parameters(*model, schedule::unit_table(config), build.type);
  return model;
}

const TextOfFamily& text_of_family(const config::Config& config) {
  const config::Family& family = *config.family;
  if (family.text != nullptr) return *family.text;
  throw UserError::of("models of model.family = \"{}\" generate no text; use {}", family.name,
                      config::commands_of(family));
}

const ExchangeOfFamily& exchange_of_family(const config::Config& config) {
  const config::Family& family = *config.family;
  if (family.exchange != nullptr) return *family.exchange;
  throw UserError::of("transformers has no layout for models of model.family = \"{}\"; use {}", family.name,
                      config::commands_of(family));
}

const ForecastOfFamily& forecast_of_family(const config::Config& config) {
  const config::Family& family = *config.family;
  if (family.forecast != nullptr) return *family.forecast;
  throw UserError::of("models of model.family = \"{}\" forecast no fields; use {}", family.name,
                      config::commands_of(family));
}

const GraphsOfFamily& graphs_of_family(const config::Config& config) {
  const config::Family& family = *config.family;
  if (family.graphs != nullptr) return *family.graphs;
  throw UserError::of("models of model.family = \"{}\" predict no properties of graphs; use {}", family.name,
                      config::commands_of(family));
}

}  // namespace terrace::models
