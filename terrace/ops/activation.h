// The activations of feed-forward layers.
#pragma once

#include <ATen/core/Tensor.h>

namespace terrace::ops {

// GELU with the tanh approximation, as in GPT-2 (Hendrycks and Gimpel, arXiv 1606.08415).
at::Tensor gelu(const at::Tensor& x);

// silu(gate) * up (Shazeer, arXiv 2002.05202). x [.., 2F] holds pairs: gate_0, up_0, gate_1, up_1, ..; result [.., F].
// Pairs are interleaved so that any range of the F features is a contiguous range of rows of the weight that makes
// them.
at::Tensor swiglu(const at::Tensor& x);

}  // namespace terrace::ops
