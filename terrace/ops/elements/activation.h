// The activations of feed-forward layers.
#pragma once

#include <ATen/core/Tensor.h>

namespace terrace::ops {

enum class Activation {
  // The two forms of GELU (Hendrycks and Gimpel, arXiv 1606.08415): x times the normal distribution's function of x by
  // its approximation with tanh, as in GPT-2, or by the error function.
  gelu,
  gelu_erf,
  // silu(gate) * up (Shazeer, arXiv 2002.05202). x [.., 2F] holds pairs: gate_0, up_0, gate_1, up_1, ..; the result is
  // [.., F]. Pairs are interleaved so that any range of the F features is a contiguous range of rows of the weight that
  // makes them.
  swiglu,
  // gelu(gate) * up by the approximation with tanh, as in Gemma; pairs as for swiglu. Separate operations compute it.
  geglu,
};

// Whether the activation takes pairs of columns, gate and up.
inline bool is_gated(Activation activation) {
  return activation == Activation::swiglu || activation == Activation::geglu;
}

at::Tensor activated(const at::Tensor& x, Activation activation);

// d loss / dx for dy = d loss / d activated(x).
at::Tensor activation_backward(const at::Tensor& dy, const at::Tensor& x, Activation activation);

}  // namespace terrace::ops
