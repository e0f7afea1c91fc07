// The squared norm of the gradient that a model-parallel group computes from its first micro-batch of a step, before it
// is summed with those of other micro-batches and data-parallel ranks. The gradient noise scale is estimated from it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <vector>

#include "terrace/models/model.h"
#include "terrace/optim/kernels.h"
#include "terrace/optim/shard.h"
#include "terrace/parallel/stage.h"
#include "terrace/parallel/tensor.h"

namespace terrace::parallel {

class FirstGradients {
 public:
  // All arguments outlive the object.
  FirstGradients(models::Model& model, Stage& stage, TensorParallel& tensor)
      : model_(model), stage_(stage), tensor_(tensor) {}

  // Begins a step, in which the other calls do nothing unless it is measured.
  void begin_step(bool is_measured);

  // Takes the squares of a segment's gradient on this rank. Called when the first micro-batch's gradient is complete
  // and has no part of another one yet (schedule::first_mixed_segment). A gradient of which other stages or tensor
  // ranks compute shares is copied until squares().
  void take(int64_t segment);

  // The sum of the squares over all segments and the elements that this rank counts; the sum over the ranks with the
  // same data is the squared norm. Called at the end of a measured step by all of these ranks together, which sum the
  // shares of gradients, with one call for each kind of share.
  double squares();

 private:
  void take_squares(const at::Tensor& gradient, const ParamMark& mark, int64_t begin, int64_t end);

  models::Model& model_;
  Stage& stage_;
  TensorParallel& tensor_;
  bool is_measured_ = false;
  optim::Squares squares_;
  std::map<int64_t, std::vector<optim::Shard>> kept_;  // by segment, copies of shares
};

}  // namespace terrace::parallel
