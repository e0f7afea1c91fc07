// Sets what torch asks when it chooses kernels.
#include "terrace/verify/deterministic_kernels.h"

#include <ATen/Context.h>

namespace terrace::verify {

void use_deterministic_kernels(const at::Device& device) {
  if (!device.is_cuda()) return;
  at::Context& torch = at::globalContext();
  torch.setDeterministicAlgorithms(true, /*warn_only=*/true);
  torch.setDeterministicCuDNN(true);
  torch.setBenchmarkCuDNN(false);
  torch.setSDPUseMath(true);
  torch.setSDPUseFlash(false);
  torch.setSDPUseMemEfficient(false);
  torch.setSDPUseCuDNN(false);
}

}  // namespace terrace::verify
