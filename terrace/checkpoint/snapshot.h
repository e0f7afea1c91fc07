// A copy of a training state in memory of its own, so that training goes on while the copy is written.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/checkpoint/checkpoint.h"

namespace terrace::checkpoint {

class Snapshot {
 public:
  // Copies the values of all tensors, on the CPU with as many threads as the caller has. Memory is taken at the first
  // call and used again by later ones of the same size. The state that is returned lies in it: it is valid until the
  // next call and as long as this object lives.
  State take(const State& state);

 private:
  at::Tensor memory_;  // bytes on the CPU
};

}  // namespace terrace::checkpoint
