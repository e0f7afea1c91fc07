// A model whose units are an embedding, the two halves of each of its blocks, and a head.
#pragma once

#include <vector>

#include "terrace/models/model.h"
#include "terrace/models/transformer/blocks.h"

namespace terrace::models {

// One tensor passes from unit to unit, the hidden states [B, T, D].
class Transformer : public Model {
 public:
  int64_t num_units() const override { return 2 * layers_ + 2; }
  std::vector<nn::Parameter*> unit_parameters(int64_t unit) override;
  std::vector<nn::Buffer*> unit_buffers(int64_t unit) override;
  Tensors forward(int64_t begin, int64_t end, const Tensors& input, const Batch& batch, const Pass& pass) override;
  // Models with experts have two: "expert_loads", the tokens of each expert in each sparse layer, layer by layer; and
  // "router_losses", over samples and layers: the balance loss, and the mean over tokens of logsumexp squared.
  std::vector<Tally> tallies() const override;
  std::vector<std::vector<double>> take_tallies() override;
  void end_step(const std::vector<std::vector<double>>& tallies) override;
  at::Device device() const override { return build_.device; }

 protected:
  Transformer(int64_t layers, const nn::Build& build) : layers_(layers), build_(build) {}

  // The modules of the model, which adds them in this order.
  struct Units {
    nn::Module *embedding = nullptr, *head = nullptr;
    Blocks* blocks = nullptr;
  };
  virtual Units units() const = 0;
  // The output of the embedding, [B, T, D].
  virtual at::Tensor embedded(const Batch& batch, const Pass& pass) const = 0;
  // The places of a batch's tokens, without the table of a layer's rotary positions, which may be null.
  virtual ops::TokenPlaces places(const Batch& /*batch*/) const { return {}; }
  virtual const ops::RotaryTable* rotary_table(int64_t /*layer*/) const { return nullptr; }
  // Returns the hidden states that the head reads, from the input of the unit `begin`.
  at::Tensor last_hidden(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass);
  const nn::Build& build() const { return build_; }

 private:
  static int64_t layer_of(int64_t unit) { return (unit - 1) / 2; }
  static bool is_attention(int64_t unit) { return unit % 2 == 1; }
  // The sparse layers' experts, in order.
  std::vector<Experts*> all_experts() const;

  int64_t layers_;
  nn::Build build_;
};

}  // namespace terrace::models
