// Defines the part of the GPT's family that needs no torch: keys, rules and unit table.
#include "terrace/models/gpt/cost/family.h"

#include "terrace/data/text/text_config.h"
#include "terrace/models/gpt/cost/config.h"
#include "terrace/models/gpt/cost/keys.h"
#include "terrace/models/gpt/cost/unit_table.h"

namespace terrace::models::gpt {
namespace {

template <typename Value>
void append(std::vector<Value>& list, const std::vector<Value>& more) {
  list.insert(list.end(), more.begin(), more.end());
}

PlannedFamily make_family() {
  PlannedFamily family;
  family.name = "gpt";
  family.about = "Decoder-only language models.";
  family.samples = "sequences";
  family.items = "tokens";
  family.loss_unit = "nats a token";
  family.model = config::FamilySettings::of(ModelConfig{});
  family.data = config::FamilySettings::of(data::TextConfig{});
  family.keys = keys();
  append(family.keys, data::text_keys());
  family.rules = rules();
  append(family.rules, data::text_rules());
  family.idle_rules = idle_rules();
  append(family.idle_rules, data::text_idle_rules());
  family.phase_keys = data::text_phase_keys();
  family.derive = [](config::Config& config) { derive(model_of(config)); };
  family.layers = [](const config::Config& config) { return model_of(config).layers; };
  family.unit_table = [](const config::Config& config, const schedule::UnitTableOptions& options) {
    return unit_table(model_of(config), options, data::text_of(config).reset_at_documents);
  };
  family.items_of_sample = [](const config::Config& config) { return model_of(config).sequence; };
  return family;
}

}  // namespace

const PlannedFamily& planned_family() {
  static const PlannedFamily family = make_family();
  return family;
}

}  // namespace terrace::models::gpt
