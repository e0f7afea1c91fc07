// Derives values of keys, and gives access to [model].
#include "terrace/models/gpt/settings/config.h"

#include <cmath>

#include "terrace/base/error.h"
#include "terrace/config/family.h"

namespace terrace::models::gpt {

double yarn_attention_factor(double factor, double scale) {
  return factor > 1 ? 0.1 * scale * std::log(factor) + 1 : 1.0;
}

void derive(ModelConfig& model) {
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  if (model.head_dim == 0) model.head_dim = model.width / model.heads;
  if (model.ffn_width == 0) model.ffn_width = 4 * model.width;
  if (model.experts.number > 0 && model.experts.width == 0) model.experts.width = model.ffn_width;
  if (model.rope_scaling == RopeScaling::yarn && model.rope_attention_factor == 0) {
    model.rope_attention_factor = yarn_attention_factor(model.rope_factor);
  }
}

const ModelConfig& model_of(const config::Config& config) {
  if (const auto* model = config.model.find<ModelConfig>()) return *model;
  throw UserError::of("this needs a language model (model.family = \"gpt\"), and the model is of the family \"{}\"",
                      config.family == nullptr ? "" : config.family->name);
}

ContextPlaces positions_over_ranks(const config::Config& config) {
  const ModelConfig& model = model_of(config);
  return {.length = model.sequence, .ranks = config.layout.context, .striped = !model.has_window()};
}

}  // namespace terrace::models::gpt
