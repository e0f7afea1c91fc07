// Looks up rows of a table; the gradient is added row by row.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/ops/weight.h"

namespace terrace::ops {

// weight[indices]: weight [V, D], indices [..] int64, result [.., D]. Throws UserError if an index is not in
// 0 .. limit - 1, where limit <= V and the rows from `limit` on are padding; the message calls the index `what`. On a
// GPU there is no check, since it would wait for the device. Backward adds the gradient to its buffer or defers it.
//
// If the table is cut by rows, V is the number of this rank's rows, each rank looks up its own rows and the result is
// the sum over the ranks. With sequence parallelism, the result has this rank's positions of indices [B, T].
at::Tensor embedding(const Weight& weight, const at::Tensor& indices, int64_t limit, const char* what,
                     WeightGradientQueue* deferred = nullptr);

// Throws UserError if an index is not in lowest .. limit - 1.
void check_indices(const at::Tensor& indices, int64_t lowest, int64_t limit, const char* what);

}  // namespace terrace::ops
