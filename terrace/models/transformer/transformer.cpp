// Runs the units of a transformer.
#include "terrace/models/transformer/transformer.h"

#include <span>
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

std::vector<nn::Buffer*> Transformer::unit_buffers(int64_t unit) {
  if (unit == 0 || unit + 1 == num_units() || is_attention(unit)) return {};
  return (*units().blocks)[layer_of(unit)].ffn_buffers();
}

std::vector<Experts*> Transformer::all_experts() const {
  std::vector<Experts*> all;
  for (Block* block : units().blocks->all()) {
    if (block->experts() != nullptr) all.push_back(block->experts());
  }
  return all;
}

std::vector<Tally> Transformer::tallies() const {
  int64_t loads = 0;
  for (const Experts* experts : all_experts()) loads += experts->number();
  if (loads == 0) return {};
  return {{.name = "expert_loads", .numbers = loads}, {.name = "router_losses", .numbers = 2}};
}

std::vector<std::vector<double>> Transformer::take_tallies() {
  const std::vector<Experts*> layers = all_experts();
  if (layers.empty()) return {};
  std::vector<double> loads, losses(2, 0.0);
  for (Experts* experts : layers) {
    const Experts::Sums sums = experts->take_sums();
    loads.insert(loads.end(), sums.loads.begin(), sums.loads.end());
    losses[0] += sums.balance;
    losses[1] += sums.z;
  }
  return {std::move(loads), std::move(losses)};
}

void Transformer::end_step(const std::vector<std::vector<double>>& tallies) {
  if (tallies.empty()) return;
  std::span<const double> rest = tallies.front();
  for (Experts* experts : all_experts()) {
    const auto own = static_cast<size_t>(experts->number());
    experts->move_bias(rest.first(own));
    rest = rest.subspan(own);
  }
}

Tensors Transformer::forward(int64_t begin, int64_t end, const Tensors& input, const Batch& batch, const Pass& pass) {
  TERRACE_CHECK(begin >= 0 && end < num_units(), "units {} to {} of {} have no forward", begin, end - 1, num_units());
  ops::TokenPlaces where = places(batch);
  const Blocks& blocks = *units().blocks;
  ops::ResidualStream x{input.empty() ? at::Tensor() : input.front()};  // [B, T, D]
  for (int64_t unit = begin; unit < end; ++unit) {
    if (unit == 0) {
      x = {embedded(batch, pass)};
      continue;
    }
    const Block& block = blocks[layer_of(unit)];
    where.table = rotary_table(layer_of(unit));
    x = is_attention(unit) ? block.attend(std::move(x), where, batch, pass)
                           : block.feed_forward(std::move(x), batch, pass);
  }
  return {x.sum()};
}

at::Tensor Transformer::last_hidden(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass) {
  return (begin + 1 == num_units() ? input : forward(begin, num_units() - 1, input, batch, pass)).front();
}

}  // namespace terrace::models
