// The matrix products of linear layers on tensors. Our kernels (terrace/ops/cpu/matmul.h) apply bias, activation or
// accumulation while the product is in the cache; torch's need separate passes.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "terrace/ops/elements/activation.h"
#include "terrace/ops/weight.h"

namespace terrace::ops {

// Whether our kernels compute products of tensors like `x`: they are chosen and the processor has the instructions.
// With AVX-512 products of fp16 are computed in fp32 from copies of their factors and rounded once, as torch's products
// of bf16 and fp16 are on processors without AVX-512.
bool own_products(const at::Tensor& x, Products chosen);

// The kernels of products of the type on the device under this choice: "avx512", "avx2" or "torch".
const char* products_instructions(const at::Device& device, at::ScalarType type, Products chosen);

// The kernels for hidden states of `sizes` [.., T, I]: under Products::decoding, if T is not 1, those that are faster
// for the type, which are ours but for bf16 on processors with AMX.
Products products_for(c10::IntArrayRef sizes, at::ScalarType type, Products chosen);

// y [N, O] = x [N, I] W^T + b for weight [O, I]; b may be undefined.
at::Tensor times_transposed(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, Products products);

// Writes x W^T, without bias, into `y`, whose rows need not be contiguous.
void times_transposed_into(const at::Tensor& y, const at::Tensor& x, const at::Tensor& weight, Products products);

// inner = x W^T + b [N, O] and activated(inner). Our kernels apply the activation within the product, except for GELU
// with the error function; on a GPU linear_gelu() does for GELU in 16 bits.
std::pair<at::Tensor, at::Tensor> times_transposed_activated(const at::Tensor& x, const at::Tensor& weight,
                                                             const at::Tensor& bias, Products products,
                                                             Activation activation);

// Computes the first `counted` columns of y [N, O] = exp(x W^T - references) for references [N] in fp32, the others =
// 0; and sums [N, exponential_sums(O)] in fp32 of some columns of y each, before rounding. Exponents are clamped to
// [-87, 87]. Callable only where own_products() is true for fp32 or bf16.
void exponentials_into(const at::Tensor& y, const at::Tensor& sums, const at::Tensor& x, const at::Tensor& weight,
                       const at::Tensor& references, int64_t counted);
int64_t exponential_sums(int64_t columns);

// dx [N, I] = dy [N, O] W.
at::Tensor times(const at::Tensor& dy, const at::Tensor& weight, Products products);
// Writes dy W into `dx`, each row times its factor [N] in fp32 if `factors` are defined.
void times_into(const at::Tensor& dx, const at::Tensor& dy, const at::Tensor& weight, Products products,
                const at::Tensor& factors = {});

// activation_backward(dy W, inner), which has the shape of `inner`.
at::Tensor times_activation_backward(const at::Tensor& dy, const at::Tensor& weight, const at::Tensor& inner,
                                     Products products, Activation activation);

// gradient [O, I] += dy^T x for dy [N, O] and x [N, I], or = if `begins`; the gradient's type may be wider. Does
// nothing if the gradient is undefined.
void add_outer_product(const at::Tensor& gradient, const at::Tensor& dy, const at::Tensor& x, Products products,
                       bool begins = false);

}  // namespace terrace::ops
