// The activations of feed-forward layers.
#pragma once

#include <ATen/core/Tensor.h>

namespace terrace::ops {

// The two forms of GELU (Hendrycks and Gimpel, arXiv 1606.08415): x times the normal distribution's function of x by
// its approximation with tanh, as in GPT-2, or by the error function.
enum class Gelu { tanh, erf };

at::Tensor gelu(const at::Tensor& x, Gelu form = Gelu::tanh);
at::Tensor gelu_backward(const at::Tensor& dy, const at::Tensor& x, Gelu form);

// silu(gate) * up (Shazeer, arXiv 2002.05202). x [.., 2F] holds pairs: gate_0, up_0, gate_1, up_1, ..; result [.., F].
// Pairs are interleaved so that any range of the F features is a contiguous range of rows of the weight that makes
// them.
at::Tensor swiglu(const at::Tensor& x);

}  // namespace terrace::ops
