// Reduces the sizes of a vision transformer so that a laptop trains it in a moment.
#include "terrace/models/vit/settings/shrink.h"

#include <algorithm>
#include <cmath>

#include "terrace/models/vit/settings/config.h"

namespace terrace::models::vit {
namespace {

constexpr int64_t small_width = 64, small_layers = 2, small_rows = 3, small_columns = 4;
constexpr int64_t narrow_patch = 2;

int64_t rounded_up(int64_t size, int64_t multiple) { return (size + multiple - 1) / multiple * multiple; }

// Divides `width` among few heads, of which each tensor rank has one, and which have a multiple of so many values.
void shrink_width(ModelConfig& model, int64_t tensor, int64_t width, int64_t head_multiple) {
  if (model.width <= width) return;
  const int64_t heads = std::min(model.heads, tensor > 1 ? tensor : int64_t{2});
  const int64_t head_dim =
      std::min(rounded_up(model.head_dim(), 4), std::max(head_multiple, width / heads / head_multiple * head_multiple));
  model.mlp_ratio = std::max(1.0, std::round(model.mlp_ratio));
  model.heads = heads;
  model.width = heads * head_dim;
}

void shrink_grid(ModelConfig& model, const config::LayoutConfig& layout) {
  const std::vector<int64_t> grid = model.grid;
  // Latitudes that the patch does not divide stay so.
  const int64_t odd = model.latitudes() % model.patch;
  const int64_t columns = layout.sequence_parallel ? rounded_up(small_columns, layout.tensor) : small_columns;
  if (model.patch_rows() > small_rows) {
    model.grid.at(0) = odd == 0 ? small_rows * model.patch : (small_rows - 1) * model.patch + odd;
  }
  if (model.patch_columns() > columns) model.grid.at(1) = columns * model.patch;
  if (layout.sequence_parallel && model.places() % layout.tensor != 0) model.grid = grid;
}

}  // namespace

void shrink(config::Config& config) {
  ModelConfig& model = model_of(config);
  const config::LayoutConfig& layout = config.layout;
  // Each virtual stage needs at least one unit.
  model.layers = std::min(model.layers, std::max(small_layers, layout.pipeline * layout.chunks - 1));
  shrink_width(model, layout.tensor, small_width, 8);
  shrink_grid(model, layout);
}

void narrow(config::Config& config, int64_t width) {
  ModelConfig& model = model_of(config);
  shrink_width(model, config.layout.tensor, width, 4);  // positions have four parts
  // Smaller patches, as many of them: those at the last latitudes may reach beyond these.
  const int64_t patch = std::min(model.patch, narrow_patch);
  model.grid = {model.patch_rows() * patch - (model.latitudes() % model.patch == 0 ? 0 : patch - 1),
                model.patch_columns() * patch};
  model.patch = patch;
  shrink_grid(model, config.layout);
}

}  // namespace terrace::models::vit
