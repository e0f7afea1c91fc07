// Runs the units of a transformer.
#include "terrace/models/transformer/transformer.h"

#include <utility>

#include "terrace/base/error.h"

namespace terrace::models {

std::vector<nn::Parameter*> Transformer::unit_parameters(int64_t unit) {
  const Units modules = units();
  if (unit == 0) return modules.embedding->parameters();
  if (unit + 1 == num_units()) return modules.head->parameters();
  Block& block = (*modules.blocks)[layer_of(unit)];
  return is_attention(unit) ? block.attention_parameters() : block.ffn_parameters();
}

Tensors Transformer::forward(int64_t begin, int64_t end, const Tensors& input, const Batch& batch, const Pass& pass) {
  TERRACE_CHECK(begin >= 0 && end < num_units(), "units {} to {} of {} have no forward", begin, end - 1, num_units());
  const ops::TokenPlaces where = places(batch);
  const Blocks& blocks = *units().blocks;
  ops::ResidualStream x{input.empty() ? at::Tensor() : input.front()};  // [B, T, D]
  for (int64_t unit = begin; unit < end; ++unit) {
    if (unit == 0) {
      x = {embedded(batch, pass)};
      continue;
    }
    const Block& block = blocks[layer_of(unit)];
    x = is_attention(unit) ? block.attend(std::move(x), where, batch, pass)
                           : block.feed_forward(std::move(x), batch, pass);
  }
  return {x.sum()};
}

at::Tensor Transformer::last_hidden(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass) {
  return (begin + 1 == num_units() ? input : forward(begin, num_units() - 1, input, batch, pass)).front();
}

}  // namespace terrace::models
