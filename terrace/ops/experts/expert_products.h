// The matrix products of all experts on tensors, as ops/products/products.h has those of one layer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "terrace/ops/elements/activation.h"
#include "terrace/ops/products/product_choice.h"

namespace terrace::ops {

// Rows [offsets[e], offsets[e + 1]) belong to expert e.
using ExpertOffsets = std::vector<int64_t>;

struct ActivatedRows {
  at::Tensor inner;   // x W^T [R, F], or [R, 2F] for SwiGLU
  at::Tensor active;  // p times its activation [R, F]
};

// For weight [E, F or 2F, D]; p [R] in the computing type or undefined.
ActivatedRows experts_activated(const at::Tensor& x, const at::Tensor& p, const ExpertOffsets& offsets,
                                const at::Tensor& weight, Activation activation, Products products);

// y [R, O] = x [R, I] W_e^T for weight [E, O, I].
at::Tensor experts_times_transposed(const at::Tensor& x, const ExpertOffsets& offsets, const at::Tensor& weight,
                                    Products products);

// dx [R, I] = dy [R, O] W_e for weight [E, O, I].
at::Tensor experts_times(const at::Tensor& dy, const ExpertOffsets& offsets, const at::Tensor& weight,
                         Products products);

struct ActivatedGradients {
  at::Tensor inner;  // d loss / d inner
  at::Tensor p;      // d loss / d p [R] in the computing type; undefined without p
};

// The gradients of experts_activated() for dy [R, D] of the second layer, whose weight is [E, D, F].
ActivatedGradients experts_activation_backward(const at::Tensor& dy, const at::Tensor& inner, const at::Tensor& p,
                                               const ExpertOffsets& offsets, const at::Tensor& weight,
                                               Activation activation, Products products);

// gradient [E, O, I] += dy_e^T x_e, or = if `begins`. Does nothing if the gradient is undefined.
void experts_add_outer_products(const at::Tensor& gradient, const at::Tensor& dy, const at::Tensor& x,
                                const ExpertOffsets& offsets, Products products, bool begins);

}  // namespace terrace::ops
