// Two linear layers with an activation between them as one operation, which computes the activation and its gradient
// while the results of the matrix products are in the cache.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/ops/activation.h"
#include "terrace/ops/weight.h"

namespace terrace::ops {

struct FeedForwardWeights {
  Weight first, first_bias;    // [F, D], or [2F, D] for SwiGLU, and its bias or undefined
  Weight second, second_bias;  // [D, F] and [D] or undefined
};

// activated(x first^T + first_bias) second^T + second_bias for x [.., D]. Backward adds the gradients of the weights to
// their buffers or defers them as linear() does, the second layer first. With tensor parallelism the first layer is cut
// by outputs and the second by inputs.
at::Tensor feed_forward(const at::Tensor& x, const FeedForwardWeights& weights, Activation activation,
                        WeightGradientQueue* deferred = nullptr);

}  // namespace terrace::ops
