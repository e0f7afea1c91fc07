// The linear layer, whose weight gradient can be deferred and whose derivative can be differentiated once more.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "terrace/ops/weight.h"

namespace terrace::ops {

// y [.., O] = x [.., I] weight^T + bias; weight [O, I], bias [O] or undefined. Backward adds the gradients of weight
// and bias to their buffers, or pushes the computation to `deferred`, which must outlive the backward pass and be run
// before the gradients are read.
//
// If the weight is cut by outputs, x is the same on all ranks and y has the columns of this rank's outputs. If the
// weight is cut by inputs, x has the columns of this rank's inputs and y is the sum over the ranks, to which the whole
// bias is added once. With sequence parallelism, x of a layer cut by outputs and y of a layer cut by inputs have
// only this rank's positions [B, T / ranks, ..], and the gradient of the latter's bias is the share of these positions.
//
// A backward of which torch keeps a graph (create_graph) computes the gradient of x alone and adds nothing to the
// gradients of weight and bias: the backward of what is made of that gradient, such as a loss of forces, adds its part.
// A layer that is cut refuses it.
at::Tensor linear(const at::Tensor& x, const Weight& weight, const Weight& bias,
                  WeightGradientQueue* deferred = nullptr);

// The forward of a layer whose weight is cut by inputs: multiplies rows [N, I] by this rank's part of the weight, sums
// the products over the ranks to y of `sizes` [.., O], and adds the whole bias. `value` is the weight's value in
// autograd.
at::Tensor sum_of_products(const at::Tensor& rows, const at::Tensor& value, const Weight& weight, const Weight& bias,
                           const std::vector<int64_t>& sizes, const char* what);

// The operands of the gradients of a layer's weight and bias: dy = d loss / d y [N, O]; own_dy, its rows at this rank's
// positions (all rows without sequence parallelism); and x [N, I].
struct LayerInputs {
  at::Tensor dy, own_dy, x;
};

// Adds the gradients of one layer to their buffers, or defers them.
void add_layer_gradients(const Weight& weight, const Weight& bias, const LayerInputs& inputs,
                         WeightGradientQueue* deferred);

}  // namespace terrace::ops
