// A decoder-only transformer with pre-norm blocks (GPT-2, or Llama and its successors with rotary positions, RMS norm
// and SwiGLU), written for one device. cost/unit_table.cpp traces its units, and says how their layers are cut over
// ranks.
#pragma once

#include <memory>
#include <vector>

#include "terrace/models/gpt/settings/config.h"
#include "terrace/models/model.h"
#include "terrace/nn/layers.h"
#include "terrace/ops/activation.h"
#include "terrace/ops/attention.h"

namespace terrace::models::gpt {

// The token embedding, and the position embedding if positions are learned.
class EmbeddingUnit : public nn::Module {
 public:
  EmbeddingUnit(const ModelConfig& config, const nn::Build& build);
  at::Tensor forward(const Batch& batch, const at::Tensor& positions, const Pass& pass) const;

  nn::Embedding& tokens;
  nn::Embedding* const positions;  // null: rotary

 private:
  double dropout_;
};

class Attention : public nn::Module {
 public:
  Attention(const ModelConfig& config, int64_t layer, const nn::Build& build);
  // `table` is null if positions are learned.
  at::Tensor forward(const at::Tensor& x, const ops::RotaryTable* table, const at::Tensor& positions,
                     const Batch& batch, const Pass& pass) const;

 private:
  nn::Norm* add_head_norm(const char* name, const ModelConfig& config, const nn::Build& build);

  ops::HeadLayout layout_;
  int64_t window_;
  double dropout_;
  int64_t layer_;
  ops::AttentionChoice kernels_;
  nn::Linear& joint_;  // queries, keys and values
  nn::Linear& output_;
  double epsilon_;
  nn::Norm *const query_norm_, *const key_norm_;  // null: none
};

class FeedForward : public nn::Module {
 public:
  FeedForward(const ModelConfig& config, const nn::Build& build);
  at::Tensor forward(const at::Tensor& x, const Pass& pass) const;

 private:
  ops::Activation activation_;
  nn::Linear& first_;
  nn::Linear& second_;
};

class Block : public nn::Module {
 public:
  Block(const ModelConfig& config, int64_t layer, const nn::Build& build);
  // The two units of a layer, each of which adds a branch to the stream.
  ops::ResidualStream attend(ops::ResidualStream x, const ops::RotaryTable* table, const at::Tensor& positions,
                             const Batch& batch, const Pass& pass) const;
  ops::ResidualStream feed_forward(ops::ResidualStream x, const Batch& batch, const Pass& pass) const;
  std::vector<nn::Parameter*> attention_parameters();
  std::vector<nn::Parameter*> ffn_parameters();

 private:
  double dropout_;
  int64_t layer_;
  nn::Norm& attention_norm_;
  Attention& attention_;
  nn::Norm& ffn_norm_;
  FeedForward& ffn_;
};

// The final norm and, unless the head is tied to the embedding, the output matrix.
class HeadUnit : public nn::Module {
 public:
  HeadUnit(const ModelConfig& config, const nn::Build& build);

  nn::Norm& norm;
  nn::Linear* const output;  // null: tied
};

// Batches have B sequences of T tokens:
//   tokens     [B, T] int64
//   targets    [B, T] int64; a target of -1 is not counted in the loss
//   positions  [B, T] int64; if absent, 0 .. T-1
//   documents  [B, T] int64, equal within a document; if absent, attention is over the whole sequence
//   document_starts  [documents + 1] int32 (ops::Documents::starts), with the size "longest_document"; may be absent
// One tensor passes from unit to unit, the hidden states [B, T, D].
class Gpt : public Model {
 public:
  Gpt(const ModelConfig& config, const nn::Build& build);

  int64_t num_units() const override { return 2 * config_.layers + 2; }
  std::vector<nn::Parameter*> unit_parameters(int64_t unit) override;
  Tensors forward(int64_t begin, int64_t end, const Tensors& input, const Batch& batch, const Pass& pass) override;
  Tensors loss(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass) override;
  // "logits": [B, T, vocabulary] in fp32.
  Outputs outputs(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass) override;
  std::vector<TensorShape> output_shapes(int64_t unit, const Batch& batch) const override;
  at::Device device() const override { return build_.device; }

 private:
  // The units are the embedding, the two halves of each layer and the head.
  static int64_t layer_of(int64_t unit) { return (unit - 1) / 2; }
  static bool is_attention(int64_t unit) { return unit % 2 == 1; }
  std::vector<Block*> add_blocks();
  const nn::Parameter& output_weight() const;

  ModelConfig config_;
  nn::Build build_;
  ops::RotaryTable table_;
  EmbeddingUnit& embedding_;
  std::vector<Block*> blocks_;
  HeadUnit& head_;
};

// The model with the marks of its unit table.
std::unique_ptr<Gpt> build_model(const ModelConfig& config, const nn::Build& build);

}  // namespace terrace::models::gpt
