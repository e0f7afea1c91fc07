// Self-attention of a transformer's layer: chooses the kernels that compute it for training, for a prompt and for one
// further token of each sequence.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "terrace/ops/attention/attention.h"
#include "terrace/ops/attention/key_value_cache.h"
#include "terrace/ops/elements/dropout.h"

namespace terrace::ops {

// The settings of a layer, the same in every pass through it.
struct SelfAttention {
  HeadLayout layout;  // of this rank's columns
  Visibility visibility = Visibility::causal;
  int64_t window = 0;  // as in joint_attention()
  AttentionChoice kernels = AttentionChoice::fastest;
};

// The places of a batch's tokens, the same for all layers.
struct TokenPlaces {
  const RotaryTable* table = nullptr;  // null: queries and keys are not rotated
  at::Tensor positions = {};           // [B, T] int64; undefined: 0 .. T-1
  Documents documents = {};
};

// The keys and values of earlier tokens, and the layer's number among them; without a cache a sequence sees itself
// alone.
struct EarlierTokens {
  KeyValueCache* cache = nullptr;
  int64_t layer = 0;
};

// joint [B, T, columns()] -> context [B, T, H * hd], as joint_attention() computes it. With dropout of the
// probabilities, whose site is called `name`, separate operations compute it. With a cache the tokens continue its
// selected sequences, and their keys and values are appended; no documents are kept apart then.
at::Tensor self_attention(const at::Tensor& joint, const SelfAttention& attention, const TokenPlaces& places,
                          const DropoutSite& site, std::string_view name, const EarlierTokens& earlier = {});

}  // namespace terrace::ops
