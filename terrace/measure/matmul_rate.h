// How fast this machine multiplies matrices: the peak that a CPU run's MFU is a share of.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "terrace/ops/weight.h"

namespace terrace::measure {

struct MatmulRate {
  double flops_per_second = 0;                // of the fastest product seen
  ops::Products faster = ops::Products::own;  // torch's only where they are faster by a quarter, as with tile units
  std::string name;                           // "bf16 [2048, 768] x [768, 3072] measured on this machine"
};

// Runs a linear layer's product of the type on the device for about `seconds` with the present number of threads, ours
// and torch's in turns. Which is faster is measured by itself, so that a busy machine does not change it.
MatmulRate matmul_rate(at::Device device, at::ScalarType type, double seconds);

}  // namespace terrace::measure
