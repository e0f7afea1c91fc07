// Reduces the sizes of a GPT so that a laptop trains it in a moment.
#include "terrace/models/gpt/settings/shrink.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "terrace/models/gpt/settings/config.h"

namespace terrace::models::gpt {
namespace {

constexpr int64_t small_width = 96, small_layers = 2, small_sequence = 32, small_vocabulary = 256;

int64_t in_proportion(int64_t size, int64_t now, int64_t before) {
  return std::max<int64_t>(
      1, std::llround(static_cast<double>(size) * static_cast<double>(now) / static_cast<double>(before)));
}

int64_t rounded_up(int64_t size, int64_t multiple) { return (size + multiple - 1) / multiple * multiple; }

// Keeps the number of query heads per key head, and at most two key heads, or one for each tensor rank if there are
// more than two.
void shrink_width(ModelConfig& model, int64_t tensor) {
  if (model.width <= small_width) return;
  const ModelConfig before = model;
  model.kv_heads = std::min(before.kv_heads, std::max<int64_t>(2, tensor));
  model.heads = before.heads / before.kv_heads * model.kv_heads;
  // A multiple of 8 suits rotary positions and the kernels.
  const int64_t head_dim = std::max<int64_t>(8, small_width / 2 / model.heads / 8 * 8);
  model.head_dim = std::min(before.head_dim, head_dim);
  model.width = in_proportion(before.width, model.heads * model.head_dim, before.heads * before.head_dim);
  model.ffn_width = rounded_up(in_proportion(before.ffn_width, model.width, before.width), tensor);
}

void shrink_vocabulary(ModelConfig& model, int64_t tensor) {
  if (model.padded_vocabulary() <= small_vocabulary) return;
  const bool padded = model.padded_vocabulary() != model.vocabulary;
  model.vocabulary_multiple = std::lcm(std::min<int64_t>(model.vocabulary_multiple, 64), tensor);
  const int64_t rows =
      std::max(model.vocabulary_multiple, small_vocabulary / model.vocabulary_multiple * model.vocabulary_multiple);
  model.vocabulary = padded ? rows - model.vocabulary_multiple / 3 : rows;
}

}  // namespace

void shrink(config::Config& config) {
  ModelConfig& model = model_of(config);
  const config::LayoutConfig& layout = config.layout;
  // Each virtual stage needs at least one unit.
  model.layers = std::min(model.layers, std::max(small_layers, layout.pipeline * layout.chunks - 1));
  const int64_t sequence = model.sequence;
  model.sequence = std::min(model.sequence, small_sequence);
  if (layout.sequence_parallel) model.sequence = rounded_up(model.sequence, layout.tensor);
  if (model.window > 0) {
    // A window that is small enough to matter stays so.
    model.window = std::clamp<int64_t>(in_proportion(model.window, model.sequence, sequence), 1, model.sequence - 1);
  }
  shrink_width(model, layout.tensor);
  shrink_vocabulary(model, layout.tensor);
}

}  // namespace terrace::models::gpt
