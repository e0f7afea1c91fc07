// The network of ClimaX (Nguyen et al., arXiv 2301.10343) and ORBIT (Wang et al., arXiv 2404.14712), written for one
// device: a token for each patch of the grid, made of the patches of all variables, pre-norm blocks whose attention
// sees all tokens, and a head that turns tokens into patches of the predicted variables. cost/unit_table.cpp traces its
// units and says how its parameters are cut over ranks.
#pragma once

#include <memory>
#include <vector>

#include "terrace/models/transformer/transformer.h"
#include "terrace/models/vit/aggregation.h"
#include "terrace/models/vit/settings/config.h"
#include "terrace/nn/layers.h"

namespace terrace::models::vit {

// The tokens of places, with their positions, the lead time and the time.
class EmbeddingUnit : public nn::Module {
 public:
  EmbeddingUnit(const ModelConfig& config, const nn::Build& build);
  at::Tensor forward(const Batch& batch, const Pass& pass) const;  // [B, L, D]

 private:
  at::Tensor patches_of(const at::Tensor& inputs) const;
  at::Tensor added(const Batch& batch, int64_t samples) const;

  ModelConfig config_;
  at::ScalarType type_, wide_;
  ChannelTokens& tokens_;
  Aggregation& aggregation_;
  nn::Parameter& positions_;  // [L, D]
  nn::Linear* const lead_;    // layer of the lead in hundreds of hours; null: none
  nn::Linear* const time_;    // layer of sines and cosines of the day of the year and the hour; null: none
};

class HeadUnit : public nn::Module {
 public:
  HeadUnit(const ModelConfig& config, const nn::Build& build);
  at::Tensor forward(const at::Tensor& x, const Batch& batch) const;  // [B, L, P outputs]

  nn::Norm& norm;
  std::vector<nn::Linear*> hidden;
  nn::Linear& output;
  nn::Parameter* const damping;  // [outputs, H, W], of anomalies; null: none

 private:
  std::vector<nn::Linear*> add_hidden(const ModelConfig& config, const nn::Build& build);
  at::Tensor damped(const Batch& batch) const;

  ModelConfig config_;
};

// Batches have B samples of C channels (ModelConfig::channels) and V outputs on a grid of H latitudes and W longitudes,
// all fp32, and fields normalised:
//   inputs       [B, C, H, W]
//   leads        [B]: hours to the target; with lead_embedding
//   times        [B, 2]: day of the year and hour of the day of the start, each from 0 to 1; with time_inputs
//   targets      [B, V, H, W]
//   before       [B, V, H, W]: the last input of the outputs
//   climatology  [B, V, H, W]: at the target's time; where anomalies are predicted
//   climatology_before [B, V, H, W]: at the time of the last input; where its anomaly is damped
//   weights      [H]: of latitudes, with mean 1
//   mask         [B, V, H, W]: 1 where the target has a value, else 0; if absent, all have one
// The hidden states are those of L places, [B, L, D].
class Vit : public Transformer {
 public:
  Vit(const ModelConfig& config, const nn::Build& build);

  // The terms of settings/vit_figures.h.
  Tensors loss(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass) override;
  std::vector<LossTerm> losses() const override;
  // "forecast": [B, V, H, W] fp32, the normalised fields.
  Outputs outputs(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass) override;
  std::vector<TensorShape> output_shapes(int64_t unit, const Batch& batch) const override;

 protected:
  Units units() const override { return {&embedding_, &head_, &blocks_}; }
  at::Tensor embedded(const Batch& batch, const Pass& pass) const override { return embedding_.forward(batch, pass); }

 private:
  at::Tensor forecast(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass);

  ModelConfig config_;
  EmbeddingUnit& embedding_;
  Blocks& blocks_;
  HeadUnit& head_;
};

}  // namespace terrace::models::vit
