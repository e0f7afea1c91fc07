// Activations of the feed-forward block.
#pragma once

#include <ATen/core/Tensor.h>

namespace terrace::ops {

// GELU in its tanh form, as GPT-2 has it (Hendrycks and Gimpel, arXiv 1606.08415).
at::Tensor gelu(const at::Tensor& x);

// silu(gate) * up (Shazeer, arXiv 2002.05202). x [.., 2F] holds pairs: gate_0, up_0, gate_1, up_1, ..; result [.., F].
// Pairs lie side by side so that any cut of the F features is one contiguous piece of the matrix that makes them.
at::Tensor swiglu(const at::Tensor& x);

}  // namespace terrace::ops
