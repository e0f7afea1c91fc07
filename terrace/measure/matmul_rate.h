// How fast this machine multiplies matrices: the peak that a CPU run's MFU is a share of.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "terrace/ops/weight.h"

namespace terrace::measure {

struct MatmulRate {
  double flops_per_second = 0;                // of the fastest products seen
  ops::Products faster = ops::Products::own;  // torch's only where they are faster by a quarter, as with tile units
  std::string name;  // "the bf16 product [512, 768] x [768, 3072] by each of 2 threads measured here"
};

// Chooses between our products and torch's, then runs a linear layer's product of the type on the device until the
// three highest rates agree within 3%, but not much longer than `seconds`. On a CPU each of the present number of
// threads has a product of its own, and time is that of the processor: neither the choice nor the rate depends on what
// else the machine does, except where threads share a core or its caches.
MatmulRate matmul_rate(at::Device device, at::ScalarType type, double seconds);

}  // namespace terrace::measure
