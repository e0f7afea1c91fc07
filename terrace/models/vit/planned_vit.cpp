// Puts together the parts of the family that need no torch: its settings, its description and its figures.
#include "terrace/models/vit/planned_vit.h"

#include "terrace/data/fields/fields_config.h"
#include "terrace/models/vit/cost/unit_table.h"
#include "terrace/models/vit/settings/config.h"
#include "terrace/models/vit/settings/keys.h"
#include "terrace/models/vit/settings/shrink.h"
#include "terrace/models/vit/settings/vit_figures.h"

namespace terrace::models::vit {
namespace {

config::Settings vit_settings() {
  config::Settings settings{
      .model = config::FamilySettings::of(ModelConfig{}),
      .data = config::FamilySettings::of(data::FieldsConfig{}),
      .keys = keys(),
      .rules = rules(),
      .idle_rules = idle_rules(),
      .derive = derive,
      .layers = [](const config::Config& config) { return model_of(config).layers; },
      .shrink = shrink,
      .narrow = narrow,
  };
  for (const config::Key& key : data::fields_keys()) settings.keys.push_back(key);
  for (const config::Rule& rule : data::fields_rules()) settings.rules.push_back(rule);
  for (const config::IdleRule& rule : data::fields_idle_rules()) settings.idle_rules.push_back(rule);
  return settings;
}

}  // namespace

const config::Family& planned_family() {
  static const VitDescription description;
  static const VitFigures figures;
  static const config::Family family{.name = "vit",
                                     .about = "Vision transformers for weather and climate.",
                                     .samples = "fields",
                                     .items = "fields",
                                     .settings = vit_settings(),
                                     .description = &description,
                                     .figures = &figures};
  return family;
}

}  // namespace terrace::models::vit
