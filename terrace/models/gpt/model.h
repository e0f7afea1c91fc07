// A decoder-only transformer with pre-norm blocks (GPT-2, or Llama and its successors with rotary positions, RMS norm
// and SwiGLU, or Gemma 3), written for one device. cost/unit_table.cpp traces its units, and says how their layers are
// cut over ranks.
#pragma once

#include <memory>
#include <vector>

#include "terrace/models/gpt/settings/config.h"
#include "terrace/models/transformer/transformer.h"
#include "terrace/nn/layers.h"
#include "terrace/ops/attention/attention.h"

namespace terrace::models::gpt {

// The token embedding, and the position embedding if positions are learned.
class EmbeddingUnit : public nn::Module {
 public:
  EmbeddingUnit(const ModelConfig& config, const nn::Build& build);
  at::Tensor forward(const Batch& batch, const Pass& pass) const;

  nn::Embedding& tokens;
  nn::Embedding* const positions;  // null: rotary

 private:
  double dropout_;
  double scale_;  // of the tokens' rows
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
// Where the positions of a sample are cut over ranks (Pass::context), tokens and targets are those of this rank, and
// positions and documents those of the whole sequences.
class Gpt : public Transformer {
 public:
  Gpt(const ModelConfig& config, const nn::Build& build);

  Tensors loss(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass) override;
  // "logits": [B, T, vocabulary] in fp32.
  Outputs outputs(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass) override;
  std::vector<TensorShape> output_shapes(int64_t unit, const Batch& batch) const override;

 protected:
  Units units() const override { return {&embedding_, &head_, &blocks_}; }
  at::Tensor embedded(const Batch& batch, const Pass& pass) const override { return embedding_.forward(batch, pass); }
  ops::TokenPlaces places(const Batch& batch) const override;
  const ops::RotaryTable* rotary_table(int64_t layer) const override;

 private:
  const nn::Parameter& output_weight() const;

  ModelConfig config_;
  ops::RotaryTable table_, local_table_;  // of rotary positions; undefined where no layer has them
  EmbeddingUnit& embedding_;
  Blocks& blocks_;
  HeadUnit& head_;
};

// The model with the marks of its unit table.
std::unique_ptr<Gpt> build_model(const ModelConfig& config, const nn::Build& build);

}  // namespace terrace::models::gpt
