// Rows of a table, with a gradient that is added row by row.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/ops/weight.h"

namespace terrace::ops {

// weight[indices]: weight [V, D], indices [..] int64, result [.., D]. Throws UserError, naming `what` an index is,
// where one is not in 0 .. limit - 1 (limit <= V: the rows above are padding). On a GPU the check is left out, as it
// would wait for the device. Backward adds the gradient to its buffer, or leaves that to `deferred`.
//
// Where the table is cut by rows, each rank looks up its own and the result is the sum over the ranks; V is then this
// rank's part. Where hidden states are cut along the sequence, the result has this rank's positions of indices [B, T].
at::Tensor embedding(const Weight& weight, const at::Tensor& indices, int64_t limit, const char* what,
                     WeightGradientQueue* deferred = nullptr);

// Throws UserError where one of the indices is not in lowest .. limit - 1.
void check_indices(const at::Tensor& indices, int64_t lowest, int64_t limit, const char* what);

}  // namespace terrace::ops
