// Two linear layers with an activation between them as one operation, which computes the activation and its gradient
// while the results of the matrix products are in the cache.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "terrace/ops/elements/activation.h"
#include "terrace/ops/elements/dropout.h"
#include "terrace/ops/weight.h"

namespace terrace::ops {

struct FeedForwardWeights {
  Weight first, first_bias;    // [F, D], or [2F, D] where it is gated, and its bias or undefined
  Weight second, second_bias;  // [D, F] and [D] or undefined
};

// Dropout of what the activation gives: the columns of a rank are those of so many heads, which count as in dropout.h.
struct InnerDropout {
  DropoutDraw draw;
  int64_t heads = 1;
};

// activated(x first^T + first_bias) second^T + second_bias for x [.., D]. Backward adds the gradients of the weights to
// their buffers or defers them as linear() does, the second layer first. With tensor parallelism the first layer is cut
// by outputs and the second by inputs. With `dropout`, x is [B, T, D] and the activation has one column for each of the
// first layer's outputs.
at::Tensor feed_forward(const at::Tensor& x, const FeedForwardWeights& weights, Activation activation,
                        WeightGradientQueue* deferred = nullptr, const std::optional<InnerDropout>& dropout = {});

}  // namespace terrace::ops
