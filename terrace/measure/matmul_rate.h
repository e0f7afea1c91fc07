// Measures how fast this machine multiplies matrices; MFU is a share of this peak.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "terrace/measure/processor_time.h"

namespace terrace::measure {

struct MatmulRate {
  double flops_per_second = 0;  // of the fastest measurement
  std::string name;             // "the bf16 product [512, 768] x [768, 3072] by each of 2 threads measured here"
};

// Runs a linear layer's product of the type on the device, by our kernels and by torch's, until the three highest rates
// agree within 3%, but not much longer than `seconds`. On a CPU each of the set number of threads has a product of its
// own, and processor time is measured: the rate does not depend on what else the machine does, unless threads share a
// core or its caches. There `clock`, which any thread may read, is read before and after each product.
MatmulRate matmul_rate(at::Device device, at::ScalarType type, double seconds, const Clock& clock = processor_seconds);

}  // namespace terrace::measure
