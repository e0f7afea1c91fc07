// The kernels of an optimizer step on tensors of a CUDA device.
#include "terrace/optim/kernels.h"

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

void add_squares_cuda(const at::Tensor& gradient, int64_t first, at::Tensor& rows) {
  launch_add_squares(narrow_array(gradient, "gradients"), first, gradient.numel(), rows.data_ptr<int64_t>(),
                     rows.size(0), ops::cuda::TorchStream(gradient.device()).get());
}

}  // namespace terrace::optim
