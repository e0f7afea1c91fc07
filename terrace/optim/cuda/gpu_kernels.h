// The launches of the optimizer's kernels for GPUs, with plain pointers; kernels.cpp gives them tensors. All arrays are
// in the GPU's memory. `stream` is a stream of the GPU's maker.
#pragma once

#include <cstdint>

#include "terrace/base/gpu/gpu_array.h"
#include "terrace/optim/adamw_step.h"

namespace terrace::optim {

struct AdamWArrays {
  float *master, *m, *v;
};

// The update of n elements; gradient and value have any type but fp64. `value` may be the master itself.
void launch_adamw(const AdamWCoefficients& c, GpuArray gradient, const AdamWArrays& state, GpuArray value, int64_t n,
                  void* stream);

// Adds the sums of squares of the pieces of n elements, the first of which has `first`, to num_rows exact sums.
void launch_add_squares(GpuArray gradient, int64_t first, int64_t n, int64_t* rows, int64_t num_rows, void* stream);

}  // namespace terrace::optim
