// Computes cross-entropies from exponentials, which our product with the output matrix stores in place of the logits.
// Passes over the logits would take up to a tenth of the time of the products; none is left.
//
// Method: exp(logit - r) needs a reference r near the largest logit of the row, which is known only after the whole
// product. The largest of the row's first 64 logits and of its target's is near enough, since fp32 and bf16 hold
// numbers up to 1e38; the sum of the exponentials s then gives the loss log(s) + r - target's logit. The gradient of
// the logits is (exponentials / s - 1 at the target) times the scale. The division by s is left to the two products
// that use the gradient: one scales rows of its result, the other has rows of its factor scaled before. A row whose sum
// is too large, or not a number, is computed again from its logits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "terrace/ops/weight.h"

namespace terrace::ops {

// The rows of hidden states of one chunk, and what their losses depend on.
struct LossRows {
  at::Tensor hidden;   // [N, D], contiguous
  at::Tensor targets;  // [N] int64; -1: not counted
  const Weight& weight;
  int64_t vocabulary = 0;       // columns from here on have no probability
  double gradient_scale = 0.0;  // 0: no gradient
};

// Writes to losses [N] (double) the cross-entropy of each row from its logits, and to `logits` [N, V] the gradient of
// the logits if the scale is not 0. V is this rank's part if the weight is cut by outputs.
void losses_of_logits(const LossRows& rows, const at::Tensor& logits, const at::Tensor& losses);

// Whether our kernels compute the losses of such rows from exponentials.
bool has_exponential_losses(const at::Tensor& hidden, const Weight& weight);

// Writes to losses [N] (double) the cross-entropy of each row, and to `gradient` [N, V], contiguous and in the type of
// `hidden`, the gradient of the logits divided by factors that differ between rows. Returns these factors, [N] in fp32;
// undefined without a gradient, whose memory is used then too. If the weight is cut by outputs, V is this rank's part.
at::Tensor exponential_losses(const LossRows& rows, const at::Tensor& gradient, const at::Tensor& losses);

}  // namespace terrace::ops
