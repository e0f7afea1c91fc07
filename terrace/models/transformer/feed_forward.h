// The dense feed-forward of a transformer's block: two linear layers with an activation between them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "terrace/models/model.h"
#include "terrace/nn/layers.h"
#include "terrace/ops/elements/activation.h"

namespace terrace::models {

struct FeedForwardOptions {
  int64_t width = 0, inner_width = 0;
  int64_t heads = 1;  // of attention, whose columns count for dropout
  ops::Activation activation = ops::Activation::gelu;
  bool bias = true;
  nn::InitialValue initial, initial_of_outputs;  // of the first matrix and of the second
  double inner_dropout = 0.0;                    // of what the activation gives
};

class FeedForward : public nn::Module {
 public:
  // `name` is that of the layer in the whole model: "blocks.3.ffn".
  FeedForward(const FeedForwardOptions& options, const std::string& name, const nn::Build& build);
  at::Tensor forward(const at::Tensor& x, const Batch& batch, const Pass& pass) const;

 private:
  ops::Activation activation_;
  double dropout_;
  int64_t columns_of_head_;  // of the inner width, for dropout
  std::string name_;
  nn::Linear &first_, &second_;
};

}  // namespace terrace::models
