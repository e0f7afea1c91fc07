// The network of ClimaX (Nguyen et al., arXiv 2301.10343) and ORBIT (Wang et al., arXiv 2404.14712), written for one
// device: a token for each patch of the grid, made of the patches of all variables, pre-norm blocks whose attention
// sees all tokens, and a head that turns tokens into patches of the predicted variables. cost/unit_table.cpp traces its
// units and says how its parameters are cut over ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "terrace/models/model.h"
#include "terrace/models/vit/aggregation.h"
#include "terrace/models/vit/settings/config.h"
#include "terrace/nn/layers.h"
#include "terrace/ops/attention.h"
#include "terrace/ops/residual_stream.h"

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

class Attention : public nn::Module {
 public:
  Attention(const ModelConfig& config, int64_t layer, const nn::Build& build);
  at::Tensor forward(const at::Tensor& x, const Pass& pass) const;

 private:
  nn::Norm* add_head_norm(const char* name, const ModelConfig& config, const nn::Build& build);

  ops::HeadLayout layout_;
  ops::AttentionChoice kernels_;
  double epsilon_;
  nn::Linear& joint_;  // queries, keys and values
  nn::Linear& output_;
  nn::Norm *const query_norm_, *const key_norm_;  // null: none
};

// Two linear layers with an activation between them and, where there is dropout, dropout after the activation.
class FeedForward : public nn::Module {
 public:
  FeedForward(const ModelConfig& config, int64_t layer, const nn::Build& build);
  at::Tensor forward(const at::Tensor& x, const Batch& batch, const Pass& pass) const;

 private:
  double dropout_;
  int64_t columns_of_head_;  // of its inner width, for dropout
  std::string name_;
  nn::Linear &first_, &second_;
};

class Block : public nn::Module {
 public:
  Block(const ModelConfig& config, int64_t layer, const nn::Build& build);
  // The two units of a layer, each of which adds a branch to the stream.
  ops::ResidualStream attend(ops::ResidualStream x, const Batch& batch, const Pass& pass) const;
  ops::ResidualStream feed_forward(ops::ResidualStream x, const Batch& batch, const Pass& pass) const;
  std::vector<nn::Parameter*> attention_parameters();
  std::vector<nn::Parameter*> ffn_parameters();

 private:
  at::Tensor dropped(const at::Tensor& branch, const char* name, const Batch& batch, const Pass& pass) const;

  double dropout_, drop_path_;
  std::string name_;
  nn::Norm& attention_norm_;
  Attention& attention_;
  nn::Norm& ffn_norm_;
  FeedForward& ffn_;
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
// One tensor passes from unit to unit, the hidden states [B, L, D] of L places. The units are the embedding, the two
// halves of each layer and the head.
class Vit : public Model {
 public:
  Vit(const ModelConfig& config, const nn::Build& build);

  int64_t num_units() const override { return 2 * config_.layers + 2; }
  std::vector<nn::Parameter*> unit_parameters(int64_t unit) override;
  Tensors forward(int64_t begin, int64_t end, const Tensors& input, const Batch& batch, const Pass& pass) override;
  // The terms of settings/vit_figures.h.
  Tensors loss(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass) override;
  std::vector<LossTerm> losses() const override;
  // "forecast": [B, V, H, W] fp32, the normalised fields.
  Outputs outputs(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass) override;
  std::vector<TensorShape> output_shapes(int64_t unit, const Batch& batch) const override;
  at::Device device() const override { return build_.device; }

 private:
  static int64_t layer_of(int64_t unit) { return (unit - 1) / 2; }
  static bool is_attention(int64_t unit) { return unit % 2 == 1; }
  std::vector<Block*> add_blocks();
  at::Tensor forecast(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass);

  ModelConfig config_;
  nn::Build build_;
  EmbeddingUnit& embedding_;
  std::vector<Block*> blocks_;
  HeadUnit& head_;
};

}  // namespace terrace::models::vit
