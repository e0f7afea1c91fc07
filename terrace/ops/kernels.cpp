// Chooses the table of kernels for a device.
#include "terrace/ops/kernels.h"

#include "terrace/base/error.h"

namespace terrace::ops {

const Kernels& kernels(const at::Device& device) {
  if (device.is_cpu()) return cpu_kernels();
  if (device.is_cuda()) return cuda_kernels();
  throw UserError::of("there are no kernels for the device {}; use cpu or cuda", device.str());
}

}  // namespace terrace::ops
