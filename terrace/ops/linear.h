// The linear layer, whose weight gradient can be deferred.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "terrace/ops/weight.h"

namespace terrace::ops {

// y [.., O] = x [.., I] weight^T + bias; weight [O, I], bias [O] or undefined. Backward adds the gradients of weight
// and bias to their buffers, or pushes that work to `deferred`, which must outlive the backward pass and be run before
// the gradients are read.
//
// Where the weight is cut by outputs, x is every rank's and y the columns of this rank's outputs. Where it is cut by
// inputs, x has the columns of this rank's inputs and y is the sum over the ranks, to which the whole bias is added
// once. x or y [B, T, ..] on the outer side is cut along the sequence where the cut says so; then the gradient of the
// bias is the share of this rank's positions.
at::Tensor linear(const at::Tensor& x, const Weight& weight, const Weight& bias,
                  WeightGradientQueue* deferred = nullptr);

// The forward of a layer whose weight is cut by inputs: rows [N, I] times this rank's part of the weight, of which
// `value` is the value that autograd sees, summed over the ranks to y of `sizes` [.., O], and the whole bias.
at::Tensor sum_of_products(const at::Tensor& rows, const at::Tensor& value, const Weight& weight, const Weight& bias,
                           const std::vector<int64_t>& sizes, const char* what);

// What the gradients of a layer's weight and bias are made of: d loss / d y [N, O], the rows of it that are this rank's
// own (all of them but where y is cut along the sequence), and x [N, I].
struct LayerInputs {
  at::Tensor dy, own_dy, x;
};

// Adds the gradients of one layer to their buffers now, or leaves that to the queue.
void add_layer_gradients(const Weight& weight, const Weight& bias, const LayerInputs& inputs,
                         WeightGradientQueue* deferred);

}  // namespace terrace::ops
