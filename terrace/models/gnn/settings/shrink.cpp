// Reduces the sizes of a graph network so that a laptop trains it in a moment.
#include "terrace/models/gnn/settings/shrink.h"

#include <algorithm>

#include "terrace/models/gnn/settings/config.h"

namespace terrace::models::gnn {
namespace {

constexpr int64_t few_layers = 2, small_size = 16, narrow_size = 4, few_radial = 8, few_heads = 2;

void shrink_sizes(ModelConfig& model, int64_t width) {
  if (model.conv == Conv::gatv2 && model.width > width) model.heads = std::min(model.heads, few_heads);
  for (int64_t* size : {&model.width, &model.filters, &model.shared_width}) *size = std::min(*size, width);
  for (OutputConfig& output : model.outputs) output.width = std::min(output.width, width);
  model.radial = std::min(model.radial, few_radial);
}

}  // namespace

void shrink(config::Config& config) {
  ModelConfig& model = model_of(config);
  const config::LayoutConfig& layout = config.layout;
  // Each virtual stage needs at least one unit.
  model.layers = std::min(model.layers, std::max(few_layers, layout.pipeline * layout.chunks - 1));
  model.pool_every = std::min(model.pool_every, model.layers - 1);
  shrink_sizes(model, small_size);
  model.shared_layers = std::min(model.shared_layers, few_layers);
  for (OutputConfig& output : model.outputs) output.layers = std::min(output.layers, few_layers);
}

void narrow(config::Config& config, int64_t width) { shrink_sizes(model_of(config), std::max(width, narrow_size)); }

}  // namespace terrace::models::gnn
