// What of a GPT can be said by unit without computing: parameters, sizes, costs, memory.
#include "terrace/base/error.h"
#include "terrace/models/gpt/cost.h"
#include "terrace/models/gpt/model.h"
#include "terrace/models/key_value_cache.h"

namespace terrace::models::gpt {

namespace {

std::vector<nn::Parameter*> parameters_of(nn::Module& first, nn::Module& second) {
  std::vector<nn::Parameter*> list = first.parameters();
  const std::vector<nn::Parameter*> more = second.parameters();
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

}  // namespace

std::vector<nn::Parameter*> Block::attention_parameters() { return parameters_of(attention_norm_, attention_); }

std::vector<nn::Parameter*> Block::ffn_parameters() { return parameters_of(ffn_norm_, ffn_); }

std::vector<Gpt::Unit> Gpt::whole_units() const {
  std::vector<Unit> units = {{Part::embedding}};
  for (int64_t layer = 0; layer < config_.layers; ++layer) units.push_back({Part::block, layer});
  units.push_back({Part::head});
  return units;
}

std::vector<nn::Parameter*> Gpt::unit_parameters(int64_t unit) {
  const auto [part, layer] = unit_at(unit);
  switch (part) {
    case Part::embedding:
      return embedding_.parameters();
    case Part::block:
      return blocks_[layer]->parameters();
    case Part::attention:
      return blocks_[layer]->attention_parameters();
    case Part::ffn:
      return blocks_[layer]->ffn_parameters();
    case Part::head:
      break;
  }
  return head_.parameters();
}

std::vector<int64_t> Gpt::used_units(int64_t unit) {
  const bool reads_embedding = unit == num_units() - 1 && head_.output == nullptr;
  return reads_embedding ? std::vector<int64_t>{0, unit} : std::vector<int64_t>{unit};
}

std::vector<int64_t> Gpt::hidden_sizes(int64_t, const Batch& batch) const {
  return {batch.tokens.size(0), batch.tokens.size(1), config_.width};
}

at::TensorOptions Gpt::hidden_options() const { return at::TensorOptions().device(build_.device).dtype(build_.type); }

double Gpt::cost_of(Part part) const {
  const auto layers = static_cast<double>(config_.layers);
  switch (part) {
    case Part::embedding:
      return 0;  // a look-up
    case Part::block:
      return block_forward_flops(config_, AttentionCount::causal_half) / layers;
    case Part::attention:
      return cost_of(Part::block) - cost_of(Part::ffn);
    case Part::ffn:
      return ffn_forward_flops(config_) / layers;
    case Part::head:
      break;
  }
  return head_forward_flops(config_);
}

std::vector<double> Gpt::unit_costs() const {
  std::vector<double> costs;
  for (const Unit& unit : units_) costs.push_back(cost_of(unit.part));
  return costs;
}

std::vector<double> Gpt::half_costs(int64_t unit) const {
  if (unit_at(unit).part != Part::block) return {};
  return {cost_of(Part::attention), cost_of(Part::ffn)};
}

void Gpt::halve(int64_t unit) {
  const auto [part, layer] = unit_at(unit);
  TERRACE_CHECK(part == Part::block, "unit {} is no block", unit);
  units_[static_cast<size_t>(unit)] = {Part::attention, layer};
  units_.insert(units_.begin() + unit + 1, {Part::ffn, layer});
}

double Gpt::step_flops(int64_t sequences) const { return model_flops(config_, sequences, AttentionCount::full); }

int64_t Gpt::bytes_of(int64_t unit, const BytesByPart& bytes, const ActivationOptions& options) const {
  switch (unit_at(unit).part) {
    case Part::embedding:
      return bytes.embedding(config_, options);
    case Part::block:
      return bytes.block(config_, options);
    case Part::attention:
      return bytes.attention(config_, options);
    case Part::ffn:
      return bytes.ffn(config_, options);
    case Part::head:
      break;
  }
  return 0;
}

int64_t Gpt::activation_bytes(int64_t unit, const ActivationOptions& options) const {
  return bytes_of(unit,
                  {.embedding = embedding_activation_bytes,
                   .block = block_activation_bytes,
                   .attention = attention_activation_bytes,
                   .ffn = ffn_activation_bytes},
                  options);
}

int64_t Gpt::weight_input_bytes(int64_t unit, const ActivationOptions& options) const {
  return bytes_of(unit,
                  {.embedding = embedding_weight_input_bytes,
                   .block = block_weight_input_bytes,
                   .attention = attention_weight_input_bytes,
                   .ffn = ffn_weight_input_bytes},
                  options);
}

std::unique_ptr<KeyValueCache> Gpt::make_cache(int64_t batch, int64_t length) {
  return std::make_unique<KeyValueCache>(config_.layers, batch, config_.kv_heads, length, config_.head_dim,
                                         hidden_options());
}

}  // namespace terrace::models::gpt
