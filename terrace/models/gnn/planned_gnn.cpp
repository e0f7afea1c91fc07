// Puts together the parts of the family that need no torch: its settings, its description and its figures.
#include "terrace/models/gnn/planned_gnn.h"

#include "terrace/data/graphs/graphs_config.h"
#include "terrace/models/gnn/cost/unit_table.h"
#include "terrace/models/gnn/settings/config.h"
#include "terrace/models/gnn/settings/gnn_figures.h"
#include "terrace/models/gnn/settings/keys.h"
#include "terrace/models/gnn/settings/shrink.h"

namespace terrace::models::gnn {
namespace {

config::Settings gnn_settings() {
  config::Settings settings{
      .model = config::FamilySettings::of(ModelConfig{}),
      .data = config::FamilySettings::of(data::GraphsConfig{}),
      .keys = keys(),
      .rules = rules(),
      .idle_rules = idle_rules(),
      .other_names = other_names(),
      .derive = derive,
      .settings_of_earlier = settings_of_earlier,
      .layers = [](const config::Config& config) { return model_of(config).layers; },
      .shrink = shrink,
      .narrow = narrow,
      .equal_shares = false,
      .sizes = {"atoms", "edges"},
  };
  for (const config::Key& key : data::graphs_keys()) settings.keys.push_back(key);
  for (const config::Rule& rule : data::graphs_rules()) settings.rules.push_back(rule);
  for (const config::IdleRule& rule : data::graphs_idle_rules()) settings.idle_rules.push_back(rule);
  return settings;
}

}  // namespace

const config::Family& planned_family() {
  static const GnnDescription description;
  static const GnnFigures figures;
  static const config::Family family{.name = "gnn",
                                     .about = "Graph networks for materials and molecules.",
                                     .samples = "graphs",
                                     .items = "atoms",
                                     .settings = gnn_settings(),
                                     .description = &description,
                                     .figures = &figures};
  return family;
}

}  // namespace terrace::models::gnn
