// Gives kernels for GPUs the elements of tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/base/error.h"
#include "terrace/base/gpu/gpu_array.h"

namespace terrace::ops::cuda {

inline GpuFloat gpu_float(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return GpuFloat::fp32;
    case at::kBFloat16:
      return GpuFloat::bf16;
    case at::kHalf:
      return GpuFloat::fp16;
    case at::kDouble:
      return GpuFloat::fp64;
    default:
      TERRACE_CHECK(false, "no kernel for tensors of {}", c10::toString(type));
  }
}

// The elements of the tensor, which must have this type; null for an undefined tensor.
inline GpuArray array(const at::Tensor& tensor, at::ScalarType type) {
  if (!tensor.defined()) return {gpu_float(type), nullptr};
  TERRACE_CHECK(tensor.scalar_type() == type, "a tensor of {} where a kernel wants {}",
                c10::toString(tensor.scalar_type()), c10::toString(type));
  return {gpu_float(type), tensor.data_ptr()};
}

inline GpuArray array(const at::Tensor& tensor) { return array(tensor, tensor.scalar_type()); }

}  // namespace terrace::ops::cuda
