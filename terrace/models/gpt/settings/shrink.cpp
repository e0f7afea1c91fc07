// Reduces the sizes of a GPT so that a laptop trains it in a moment, or thousands of ranks of it together.
#include "terrace/models/gpt/settings/shrink.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "terrace/models/gpt/settings/config.h"

namespace terrace::models::gpt {
namespace {

constexpr int64_t small_layers = 2;

// The sizes to which a model is reduced, unless it is smaller.
struct Least {
  int64_t width = 0;
  int64_t heads_width = 0;    // of all heads together
  int64_t kv_heads = 1;       // unless there are more tensor ranks
  int64_t queries = 128;      // query heads for each of them
  int64_t head_multiple = 2;  // of values in a head; rotary positions turn pairs of them
  int64_t sequence = 0, vocabulary = 0;
};

// Heads of a multiple of 8 values suit the kernels.
constexpr Least small = {
    .width = 96, .heads_width = 48, .kv_heads = 2, .head_multiple = 8, .sequence = 32, .vocabulary = 256};
constexpr Least narrowest = {.queries = 2, .sequence = 8, .vocabulary = 32};

int64_t in_proportion(int64_t size, int64_t now, int64_t before) {
  return std::max<int64_t>(
      1, std::llround(static_cast<double>(size) * static_cast<double>(now) / static_cast<double>(before)));
}

int64_t rounded_up(int64_t size, int64_t multiple) { return (size + multiple - 1) / multiple * multiple; }

// Keeps the number of query heads per key head unless it is to be less, and few key heads, of which each tensor rank
// has one.
void shrink_width(ModelConfig& model, const config::LayoutConfig& layout, const Least& least) {
  if (model.width <= least.width) return;
  const ModelConfig before = model;
  const int64_t tensor = layout.tensor;
  // Context ranks may exchange positions for heads.
  const int64_t ranks = before.heads % (tensor * layout.context) == 0 ? tensor * layout.context : tensor;
  const int64_t queries = before.heads / before.kv_heads;
  model.kv_heads = std::min(before.kv_heads, std::max(least.kv_heads, ranks));
  model.heads = std::min(queries, least.queries) * model.kv_heads;
  if (model.heads % ranks != 0) model.heads = queries * model.kv_heads;
  const int64_t multiple = least.head_multiple;
  const int64_t head_dim = std::max(multiple, least.heads_width / model.heads / multiple * multiple);
  model.head_dim = std::min(before.head_dim, head_dim);
  model.width = in_proportion(before.width, model.heads * model.head_dim, before.heads * before.head_dim);
  model.ffn_width = rounded_up(in_proportion(before.ffn_width, model.width, before.width), tensor);
  if (model.experts.number == 0) return;
  model.experts.width = rounded_up(in_proportion(before.experts.width, model.width, before.width), tensor);
}

void shrink_vocabulary(ModelConfig& model, int64_t tensor, const Least& least) {
  if (model.padded_vocabulary() <= least.vocabulary) return;
  const bool padded = model.padded_vocabulary() != model.vocabulary;
  model.vocabulary_multiple = std::lcm(std::min(model.vocabulary_multiple, least.vocabulary / 4), tensor);
  const int64_t rows =
      std::max(model.vocabulary_multiple, least.vocabulary / model.vocabulary_multiple * model.vocabulary_multiple);
  model.vocabulary = padded ? rows - model.vocabulary_multiple / 3 : rows;
}

void shrink_sizes(ModelConfig& model, const config::LayoutConfig& layout, const Least& least) {
  const int64_t sequence = model.sequence;
  model.sequence = std::min(model.sequence, least.sequence);
  // Each context rank has two stripes, of which tensor ranks have equal parts.
  const int64_t parts = (layout.context > 1 ? 2 * layout.context : 1) * (layout.sequence_parallel ? layout.tensor : 1);
  model.sequence = rounded_up(model.sequence, parts);
  if (model.window > 0) {
    // A window that is small enough to matter stays so.
    model.window = std::clamp<int64_t>(in_proportion(model.window, model.sequence, sequence), 1, model.sequence - 1);
  }
  shrink_width(model, layout, least);
  shrink_vocabulary(model, layout.tensor, least);
}

}  // namespace

void shrink(config::Config& config) {
  ModelConfig& model = model_of(config);
  // Each virtual stage needs at least one unit.
  model.layers = std::min(model.layers, std::max(small_layers, config.layout.pipeline * config.layout.chunks - 1));
  model.global_every = std::min(model.global_every, small_layers);  // so that one layer of few is global
  shrink_sizes(model, config.layout, small);
}

void narrow(config::Config& config, int64_t width) {
  Least least = narrowest;
  least.width = least.heads_width = width;
  shrink_sizes(model_of(config), config.layout, least);
}

}  // namespace terrace::models::gpt
