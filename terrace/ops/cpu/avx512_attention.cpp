// Chooses attention kernels by what the processor has.
#include "terrace/ops/cpu/avx512_attention.h"

namespace terrace::ops {

const AttentionKernels* attention_kernels(const at::Device& device, at::ScalarType type, const HeadLayout& layout) {
  static constexpr AttentionKernels of_fp32 = {"avx512", cpu::attention<float>, cpu::attention_backward<float>};
  static constexpr AttentionKernels of_bf16 = {"avx512_bf16", cpu::attention<c10::BFloat16>,
                                               cpu::attention_backward<c10::BFloat16>};
  static const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  static const bool bf16 = avx512 && __builtin_cpu_supports("avx512bf16");
  if (!device.is_cpu() || layout.head_dim % cpu::lanes != 0 || layout.head_dim > cpu::largest_head_dim) return nullptr;
  if (type == at::kFloat && avx512) return &of_fp32;
  if (type == at::kBFloat16 && bf16) return &of_bf16;
  return nullptr;
}

}  // namespace terrace::ops
