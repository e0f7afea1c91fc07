// Chooses the table of kernels for a device.
#include "terrace/ops/kernels.h"

#include "terrace/base/error.h"
#include "terrace/ops/recorded_kernels.h"

namespace terrace::ops {

const Kernels& kernels(const at::Device& device) {
  if (device.is_cpu()) return recorded_where_asked(cpu_kernels());
  if (device.is_cuda()) return recorded_where_asked(cuda_kernels());
  throw UserError::of("there are no kernels for the device {}; use cpu or cuda", device.str());
}

}  // namespace terrace::ops
