// The parts of a loss from exponentials (ops/loss/exponential_loss.h) that pass over hidden states or over sums of
// columns. The result of a row depends on that row alone.
#pragma once

#include <ATen/core/Tensor.h>

namespace terrace::ops::cpu {

// Computes for each row n of hidden [N, D], whose first logits are few[n] of few [N, F] fp32: references[n] = the
// largest of few[n] and, if columns[n] is not -1, of logits[n] = hidden[n] . weight[columns[n]], else logits[n] = 0.
// weight is [V, D], columns int64, references and logits fp32.
void loss_references(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& columns,
                     const at::Tensor& few, const at::Tensor& references, const at::Tensor& logits);

// sums [N] in double = the sum of each row of parts [N, P] in fp32.
void row_sums(const at::Tensor& parts, const at::Tensor& sums);

// Multiplies each row of x [N, D] by its factor [N] in fp32; the result has the type of x.
at::Tensor scaled_rows(const at::Tensor& x, const at::Tensor& factors);

}  // namespace terrace::ops::cpu
