// The product of two tensors that both have gradients, with our kernels, for weights that are made of several.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/ops/products/product_choice.h"

namespace terrace::ops {

// y [N, O] = x [N, I] w^T for w [O, I]. A backward of which torch keeps a graph (create_graph) has the gradient of x
// alone, which can be differentiated by both once more; that of w is refused.
at::Tensor product(const at::Tensor& x, const at::Tensor& w, const ProductChoice& products);

}  // namespace terrace::ops
