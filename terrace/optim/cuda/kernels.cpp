// The kernels of an optimizer step on tensors of a CUDA device.
#include "terrace/optim/kernels.h"

#include <ATen/ops/empty.h>

#include "terrace/base/error.h"
#include "terrace/ops/cuda/array.h"
#include "terrace/ops/cuda/torch_stream.h"
#include "terrace/optim/cuda/gpu_kernels.h"

namespace terrace::optim {
namespace {

GpuArray narrow_array(const at::Tensor& tensor, const char* what) {
  TERRACE_CHECK(tensor.scalar_type() != at::kDouble, "{} of {}", what, at::toString(tensor.scalar_type()));
  return ops::cuda::array(tensor);
}

}  // namespace

void adamw_step_cuda(const AdamWStep& step, const at::Tensor& gradient, at::Tensor& master, at::Tensor& m,
                     at::Tensor& v, at::Tensor& value) {
  launch_adamw(AdamWCoefficients(step), narrow_array(gradient, "gradients"),
               {master.data_ptr<float>(), m.data_ptr<float>(), v.data_ptr<float>()}, narrow_array(value, "weights"),
               gradient.numel(), ops::cuda::TorchStream(gradient.device()).get());
}

at::Tensor squares_by_piece_cuda(const at::Tensor& gradient) {
  const at::Tensor sums =
      at::empty({(gradient.numel() + norm_piece - 1) / norm_piece}, gradient.options().dtype(at::kDouble));
  launch_squares_by_piece(narrow_array(gradient, "gradients"), sums.data_ptr<double>(), gradient.numel(),
                          ops::cuda::TorchStream(gradient.device()).get());
  return sums;
}

}  // namespace terrace::optim
