// The output layer and its cross-entropy in one, in chunks of tokens.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "terrace/ops/weight.h"

namespace terrace::ops {

struct VocabularyLossOptions {
  int64_t vocabulary = 0;                   // columns above are padding: no probability, no gradient
  double gradient_scale = 1.0;              // multiplies every gradient, not the value
  int64_t chunk_bytes = int64_t{64} << 20;  // of logits at a time
};

// The sum over tokens of -log softmax(hidden weight^T)[target], in fp32 (double for double): hidden [.., D], weight
// [V, D], targets [..] int64, -1 where a token is not counted. Logits exist for one chunk of tokens at a time, in the
// type of `hidden`, and become their own gradient in place. So the gradients are computed in the forward pass, where
// autograd is on: that of the weight is added to its buffer at once, that of `hidden` is kept. Both are multiplied by
// gradient_scale; backward takes an upstream gradient of 1 and no other, as anything else would come too late.
//
// Where the weight is cut by outputs, each rank has the logits of its part of the vocabulary, V is that part, and every
// rank has the same loss. A hidden that is cut along the sequence is gathered; targets are those of all positions.
at::Tensor vocabulary_loss(const at::Tensor& hidden, const Weight& weight, const at::Tensor& targets,
                           const VocabularyLossOptions& options);

}  // namespace terrace::ops
