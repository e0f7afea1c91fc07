// Chooses attention kernels by what the processor has.
#include "terrace/ops/cpu/avx512_attention.h"

namespace terrace::ops {

const AttentionKernels* attention_kernels(const at::Device& device, at::ScalarType type, const HeadLayout& layout) {
  static constexpr AttentionKernels of_fp32 = {"avx512", cpu::attention<float>, cpu::attention_backward<float>};
  static constexpr AttentionKernels of_bf16 = {"avx512_bf16", cpu::attention<c10::BFloat16>,
                                               cpu::attention_backward<c10::BFloat16>};
  if (!device.is_cpu() || layout.head_dim % cpu::lanes != 0 || layout.head_dim > cpu::largest_head_dim) return nullptr;
  if (!cpu::has_avx512(type)) return nullptr;
  return type == at::kFloat ? &of_fp32 : &of_bf16;
}

}  // namespace terrace::ops
