// Kernels of a GPU that give the same bits in every run, which comparisons to the bit need.
#pragma once

#include <c10/core/Device.h>

namespace terrace::verify {

// On a GPU, torch's operations then choose deterministic kernels where they have them, and only warn where they have
// none. Attention is computed by separate products: where torch only warns, its flash attention and cuDNN's still add
// the gradients of queries in any order. Holds for the whole process. Does nothing for a CPU.
void use_deterministic_kernels(const at::Device& device);

}  // namespace terrace::verify
