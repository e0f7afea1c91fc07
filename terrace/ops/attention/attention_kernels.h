// The table of our own attention kernels, which exist for some devices and types.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/ops/attention/attention.h"
#include "terrace/ops/attention/partial_attention.h"

namespace terrace::ops {

struct AttentionInput {
  HeadLayout layout;
  at::Tensor joint;      // [B, T, layout.columns()], contiguous
  RotaryTable table;     // undefined: no rotation
  at::Tensor positions;  // [B, T] int64, undefined: 0 .. T-1
  // [B, T rounded up to 16] int32: the first position of the document of each token, padded with -1. Undefined: one
  // document. A token attends to the tokens with the same number, in causal attention to those at or before its
  // position.
  at::Tensor document_begins;
  Visibility visibility = Visibility::causal;
  int64_t window = 0;  // of causal attention: the keys that a query sees at most, up to its own; 0: all
};

// Softmax(Q K^T / sqrt(hd)) V. The order of every sum is independent of the number of threads.
struct AttentionKernels {
  const char* name;
  // context [B, T, H * hd]; log_sums [B, H, T] fp32: for each query the binary logarithm of the sum of its
  // exponentials, from which backward recomputes the probabilities (Dao, arXiv 2307.08691, section 3.1).
  void (*forward)(const AttentionInput& input, const at::Tensor& context, const at::Tensor& log_sums);
  // Writes the gradient of joint.
  void (*backward)(const AttentionInput& input, const at::Tensor& context, const at::Tensor& log_sums,
                   const at::Tensor& context_gradient, const at::Tensor& joint_gradient);

  // The functions of partial_attention.h. Positions are defined if there is a table, and `documents` are [B, T or S
  // rounded up to 16] int32, padded with -1. T and S are at least 1.
  void (*add)(const PartialAttention& part, const RunningContext& running);
  void (*context_products)(const HeadLayout& layout, const at::Tensor& context, const at::Tensor& context_gradient,
                           const at::Tensor& products);
  void (*add_gradients)(const PartialAttention& part, const at::Tensor& log_sums, const at::Tensor& products,
                        const at::Tensor& context_gradient, const PartialGradients& gradients);
};

constexpr int64_t largest_head_dim = 256;

// Null if there are no kernels for the device, type and layout.
const AttentionKernels* attention_kernels(const at::Device& device, at::ScalarType type, const HeadLayout& layout);

}  // namespace terrace::ops
