// Replaces the CUDA kernels in a build without CUDA: throws UserError.
#include "terrace/base/error.h"
#include "terrace/optim/kernels.h"

namespace terrace::optim {

void adamw_step_cuda(const AdamWStep&, const at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&) {
  throw UserError("this build has no CUDA kernels; build with the preset cuda, or set train.device = \"cpu\"");
}

void add_squares_cuda(const at::Tensor&, int64_t, at::Tensor&) {
  throw UserError("this build has no CUDA kernels; build with the preset cuda, or set train.device = \"cpu\"");
}

}  // namespace terrace::optim
