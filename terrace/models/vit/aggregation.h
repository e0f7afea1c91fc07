// Makes one token a place of the patches of all variables (Nguyen et al., ClimaX, arXiv 2301.10343, section 3): each
// variable's patch becomes a token, and one query attends to the tokens of a place.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/models/model.h"
#include "terrace/models/vit/settings/config.h"
#include "terrace/nn/layers.h"

namespace terrace::models::vit {

// The patch embedding and the embedding of each of the C channels: token c = weight_c patch + bias_c + variable_c, for
// patches of P numbers.
class ChannelTokens : public nn::Module {
 public:
  ChannelTokens(const ModelConfig& config, const nn::Build& build);

  // The tokens as one affine map of the patches, [C, width, P + 1]: its last column is added.
  at::Tensor map(at::ScalarType type) const;

  nn::Parameter &weight, &bias;  // [C, width, P], [C, width]
  nn::Parameter& variables;      // [C, width]
};

// Attention of one trained query to the C tokens of a place, with several heads, and a linear layer after it.
//
// The query is the same at all places and tokens are affine in the patch, so that tokens, keys and values, which would
// be C times as large as the hidden states, never exist: for each head and channel the score is a product of the patch
// with a vector of P + 1 numbers, and the value one with a matrix [head_dim, P + 1]. Both are made of the parameters
// once a micro-batch. With qk_norm the score is divided by the deviation of the key, whose square is a quadratic form
// of the patch. All this is computed in fp32.
//
// Heads are cut over the tensor ranks, exactly: each rank attends with its own heads to all channels at all places,
// whose number the ranks need not divide, and the output layer is a sum over the ranks. So nothing but that sum is
// sent, no more than a sum over ranks that each hold some of the channels would take.
class Aggregation : public nn::Module {
 public:
  Aggregation(const ModelConfig& config, const nn::Build& build);

  // patches [B, L, C, P] of all places in fp32 (double in a model of doubles) -> [B, L, width] of the rank's own
  // places, which are all of them without sequence parallelism. Backward computes the attention again.
  at::Tensor forward(const at::Tensor& patches, const ChannelTokens& tokens, const Pass& pass) const;

  // Computes forward() before the linear layer, for given rows [N, C, P] and a given query [width]. Returns [N, width /
  // tensor ranks], the rank's own heads.
  at::Tensor attend(const at::Tensor& patches, const ChannelTokens& tokens, const at::Tensor& query) const;

  nn::Parameter& query;                  // [width]
  nn::Parameter &qkv_weight, &qkv_bias;  // [3 width, width], [3 width]: for each head of its query, keys and values
  nn::Linear& output;

 private:
  // Maps that are made of the parameters alone; I = P + 1 inputs of a channel, the last of which is 1.
  struct Maps {
    at::Tensor scores;   // [own heads, C, I]
    at::Tensor values;   // [own heads, C I, head_dim]
    at::Tensor squares;  // [own heads, C, I, I], the square of a key's deviation; undefined without qk_norm
  };
  Maps maps_of(const ChannelTokens& tokens, const at::Tensor& query) const;

  nn::Norm* add_head_norm(const char* name, const ModelConfig& config, const nn::Build& build);

  int64_t own_heads() const;

  int64_t width_, head_dim_;
  double epsilon_;
  at::ScalarType type_, wide_;
  nn::Norm *const query_norm_, *const key_norm_;  // null: none
};

}  // namespace terrace::models::vit
