// Computes the output layer and its cross-entropy in one operation, in chunks of tokens.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "terrace/base/operation_limits.h"
#include "terrace/ops/weight.h"

namespace terrace::ops {

struct VocabularyLossOptions {
  int64_t vocabulary = 0;                         // columns from here on are padding without probability and gradient
  double gradient_scale = 1.0;                    // multiplies every gradient, not the value
  int64_t chunk_bytes = loss_chunk_bytes(false);  // of logits at a time, but at least those of 512 tokens
};

// The tokens of a chunk of all `tokens`, with logits for this weight.
int64_t tokens_per_chunk(int64_t tokens, const at::Tensor& weight, int64_t chunk_bytes);

// The sum over tokens of -log softmax(hidden weight^T)[target], in fp32 (double for double): hidden [.., D], weight
// [V, D], targets [..] int64, -1 for tokens that are not counted. Logits exist for one chunk of tokens at a time, in
// the type of `hidden`, and their gradient overwrites them. So the gradients are computed in forward if autograd is on:
// the gradient of the weight is added to its buffer at once, the gradient of `hidden` is kept for backward. Both are
// multiplied by gradient_scale in forward; backward therefore requires an upstream gradient of 1.
//
// If the weight is cut by outputs, V is this rank's part of the vocabulary, each rank computes the logits of its part,
// and every rank has the same loss. With sequence parallelism `hidden` is gathered; `targets` are those of all
// positions.
at::Tensor vocabulary_loss(const at::Tensor& hidden, const Weight& weight, const at::Tensor& targets,
                           const VocabularyLossOptions& options);

}  // namespace terrace::ops
