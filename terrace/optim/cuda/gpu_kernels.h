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

// sums[i]: the sum of squares of elements i * norm_piece to (i + 1) * norm_piece of the n elements.
void launch_squares_by_piece(GpuArray gradient, double* sums, int64_t n, void* stream);

}  // namespace terrace::optim
