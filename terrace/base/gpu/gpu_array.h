// Arrays of floating-point numbers in a GPU's memory, for declarations that host compilers and GPU compilers both read.
#pragma once

namespace terrace {

enum class GpuFloat { fp64, fp32, bf16, fp16 };

// Contiguous elements, not owned. `data` is nullptr where a kernel may do without the array.
struct GpuArray {
  GpuFloat type = GpuFloat::fp32;
  void* data = nullptr;
};

}  // namespace terrace
