// Puts together the family of the GPT: its settings, its description and its figures, which need no torch.
#include "terrace/models/gpt/planned_gpt.h"

#include "terrace/data/text/text_config.h"
#include "terrace/models/gpt/cost/gpt_description.h"
#include "terrace/models/gpt/settings/config.h"
#include "terrace/models/gpt/settings/gpt_figures.h"
#include "terrace/models/gpt/settings/keys.h"
#include "terrace/models/gpt/settings/shrink.h"

namespace terrace::models::gpt {
namespace {

template <typename Value>
void append(std::vector<Value>& list, const std::vector<Value>& more) {
  list.insert(list.end(), more.begin(), more.end());
}

config::Settings settings() {
  config::Settings settings{
      .model = config::FamilySettings::of(ModelConfig{}),
      .data = config::FamilySettings::of(data::TextConfig{}),
      .keys = keys(),
      .rules = rules(),
      .idle_rules = idle_rules(),
      .other_names = other_names(),
      .phase_keys = data::text_phase_keys(),
      .derive = [](config::Config& config) { derive(model_of(config)); },
      .layers = [](const config::Config& config) { return model_of(config).layers; },
      .shrink = shrink,
      .narrow = narrow,
      .cuts_positions = true,
      .has_experts = true,
  };
  append(settings.keys, data::text_keys());
  append(settings.rules, data::text_rules());
  append(settings.idle_rules, data::text_idle_rules());
  return settings;
}

}  // namespace

const config::Family& planned_family() {
  static const GptDescription description;
  static const GptFigures figures;
  static const config::Family family{.name = "gpt",
                                     .about = "Decoder-only language models.",
                                     .samples = "sequences",
                                     .items = "tokens",
                                     .settings = settings(),
                                     .description = &description,
                                     .figures = &figures};
  return family;
}

}  // namespace terrace::models::gpt
