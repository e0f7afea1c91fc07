// Moves the rows of experts on a CPU; ops/experts/expert_rows.h says what they are. Tensors are contiguous, and those
// of values have one type. Weights [N, k] are of the computing type.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace terrace::ops::cpu {

// out[row] = x[pairs[row] / slots], times the weight of the pair if `weights` are defined.
void gather_rows(const at::Tensor& x, const at::Tensor& pairs, int64_t slots, const at::Tensor& weights,
                 const at::Tensor& out);

// out[n] = the sum over the slots j of values[places[n slots + j]], times their weights if these are defined.
void sum_rows(const at::Tensor& values, const at::Tensor& places, int64_t slots, const at::Tensor& weights,
              const at::Tensor& out);

// products [N, slots] = the scalar products of x[n] with values[places[n slots + j]].
void row_products(const at::Tensor& x, const at::Tensor& values, const at::Tensor& places, int64_t slots,
                  const at::Tensor& products);

// sums [R] of the columns of parts [R, P] in fp32, in their order.
void sum_parts(const at::Tensor& parts, const at::Tensor& sums);

}  // namespace terrace::ops::cpu
