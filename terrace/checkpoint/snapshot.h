// A copy of a training state in its own memory, so that training can continue while the copy is written.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/checkpoint/checkpoint.h"

namespace terrace::checkpoint {

// Whether a tensor of the state is on a GPU.
bool any_on_gpu(const State& state);

class Snapshot {
 public:
  // Copies the values of all tensors into host memory, with as many threads as the caller has. The memory is allocated
  // at the first call and reused by later calls of the same size. The returned state lies in it and is valid until the
  // next call or the end of this object.
  State take(const State& state);

 private:
  at::Tensor memory_;  // bytes on the CPU
};

}  // namespace terrace::checkpoint
