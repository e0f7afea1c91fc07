// Derives values of keys, and gives access to [model].
#include "terrace/models/vit/settings/config.h"

#include <cmath>

#include "terrace/base/error.h"
#include "terrace/config/family.h"

namespace terrace::models::vit {

int64_t ModelConfig::ffn_width() const { return std::llround(mlp_ratio * static_cast<double>(width)); }

void derive(config::Config& config) {
  ModelConfig& model = model_of(config);
  const data::FieldsConfig& data = data_of(config);
  if (model.outputs.empty()) model.outputs = model.variables;
  model.channels.clear();
  for (int64_t before = data.inputs - 1; before >= 0; --before) {
    for (const std::string& variable : model.variables) {
      model.channels.push_back(before == 0 ? variable : fmt::format("{} {} before", variable, before));
    }
  }
  model.channels.insert(model.channels.end(), data.constants.begin(), data.constants.end());
}

std::vector<double> output_weights(const ModelConfig& model) {
  std::vector<double> weights;
  double sum = 0;
  for (const std::string& output : model.outputs) {
    const auto found = model.loss_weights.find(output);
    weights.push_back(found == model.loss_weights.end() ? 1.0 : found->second);
    sum += weights.back();
  }
  for (double& weight : weights) weight *= static_cast<double>(weights.size()) / sum;
  return weights;
}

double drop_path_of(const ModelConfig& model, int64_t layer) {
  if (model.layers == 1) return 0;
  return model.drop_path * static_cast<double>(layer) / static_cast<double>(model.layers - 1);
}

const ModelConfig& model_of(const config::Config& config) {
  if (const auto* model = config.model.find<ModelConfig>()) return *model;
  throw UserError::of("this needs a model of weather (model.family = \"vit\"), and the model is of the family \"{}\"",
                      config.family == nullptr ? "" : config.family->name);
}

}  // namespace terrace::models::vit
