// Replaces the CUDA kernels in a build without CUDA.
#include "terrace/base/error.h"
#include "terrace/ops/kernels.h"

namespace terrace::ops {

const Kernels& cuda_kernels() {
  throw UserError(
      "this binary is built without CUDA kernels; use train.device = \"cpu\" or build with the preset cuda");
}

}  // namespace terrace::ops
