// The table of CUDA kernels.
#include "terrace/ops/cuda/kernels.h"

namespace terrace::ops {

const Kernels& cuda_kernels() {
  static constexpr Kernels table = {.add = cuda::add,
                                    .add_column_sums = cuda::add_column_sums,
                                    .add_rows = cuda::add_rows,
                                    .norm = cuda::norm,
                                    .norm_backward = cuda::norm_backward,
                                    .swiglu = cuda::swiglu,
                                    .swiglu_backward = cuda::swiglu_backward,
                                    .rotate = cuda::rotate,
                                    .dropout = cuda::dropout,
                                    .cross_entropy = cuda::cross_entropy};
  return table;
}

}  // namespace terrace::ops
