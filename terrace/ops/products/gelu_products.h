// Products that a GPU's library computes with GELU (its approximation by tanh) within, so that no other kernel reads
// and writes the widest activations.
#pragma once

#include <ATen/core/Tensor.h>

namespace terrace::ops {

// inner [N, O] = x [N, I] weight [O, I]^T + bias [O] (may be undefined), and active = gelu(inner) of the sums before
// they are rounded to `inner`.
//
// Returns false and writes nothing where the library has no such product: on CPUs and AMD's GPUs, for types other than
// bf16 and fp16, and for rows that are not whole pieces of 16 bytes. In one process the same kernel computes equal
// shapes.
bool linear_gelu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& inner,
                 const at::Tensor& active);

// d_inner [N, I] = gelu'(inner) (dy [N, O] weight [O, I]). Returns false as above.
bool linear_inputs_gelu(const at::Tensor& dy, const at::Tensor& weight, const at::Tensor& inner,
                        const at::Tensor& d_inner);

}  // namespace terrace::ops
