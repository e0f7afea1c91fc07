// The layers of transformers for one device: parameters with their initial values, and calls of the operations in ops/.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/nn/module.h"
#include "terrace/ops/elements/residual_stream.h"
#include "terrace/ops/weight.h"

namespace terrace::nn {

// The parameter in the form that operations take; for null a Weight with undefined tensors.
ops::Weight weight_of(const Parameter* parameter);

// y = x W^T + b; weight [outputs, inputs], bias [outputs] starting at 0.
class Linear : public Module {
 public:
  Linear(int64_t inputs, int64_t outputs, bool bias, InitialValue initial, const Build& build);

  at::Tensor forward(const at::Tensor& x, ops::WeightGradientQueue* deferred = nullptr) const;
  // The first of the whole layer's outputs that this rank has, where the outputs are cut.
  int64_t first_output() const { return weight.mark.row_ranges.front().begin; }

  Parameter& weight;
  Parameter* const bias;  // null: none
};

// Row indices[..] of weight [rows, width]; rows from `limit` on are padding, which no index may select.
class Embedding : public Module {
 public:
  Embedding(int64_t rows, int64_t width, int64_t limit, InitialValue initial, const Build& build);

  // An error message about an index outside the limit calls the index `what`.
  at::Tensor forward(const at::Tensor& indices, const char* what, ops::WeightGradientQueue* deferred = nullptr) const;

  Parameter& weight;

 private:
  int64_t limit_;
};

// Layer norm or RMS norm; weight starts at 1, bias at 0. RMS norm never has a bias. rms_1p multiplies by 1 + weight,
// which starts at 0.
class Norm : public Module {
 public:
  enum class Kind { layer, rms, rms_1p };
  Norm(Kind kind, int64_t width, bool bias, double epsilon, const Build& build);

  at::Tensor forward(const at::Tensor& x) const;
  // The norm of the stream's sum, which it computes on the way if a branch is still to be added.
  at::Tensor forward(ops::ResidualStream& x, ops::WeightGradientQueue* deferred = nullptr) const;

  double weight_offset() const { return kind_ == Kind::rms_1p ? 1.0 : 0.0; }

  Parameter& weight;
  Parameter* const bias;  // null: none

 private:
  Kind kind_;
  double epsilon_;
};

}  // namespace terrace::nn
