// Two linear layers with an activation between them, as one operation: the activation and its gradient are computed
// while the products' results are in the cache.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/ops/weight.h"

namespace terrace::ops {

struct FeedForwardWeights {
  Weight first, first_bias;    // [F, D] and [F] or undefined
  Weight second, second_bias;  // [D, F] and [D] or undefined
};

// gelu(x first^T + first_bias) second^T + second_bias for x [.., D]; gelu in its form with tanh. Backward adds the
// gradients of the weights to their buffers, or pushes that work to `deferred` as linear() does: the second layer's
// first. Where the first layer is cut by outputs and the second by inputs, both are.
at::Tensor gelu_feed_forward(const at::Tensor& x, const FeedForwardWeights& weights,
                             WeightGradientQueue* deferred = nullptr);

}  // namespace terrace::ops
