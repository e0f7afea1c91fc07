// Chooses attention kernels by the instructions of the processor.
#include "terrace/ops/cpu/avx512/attention.h"

#include <ATen/ops/empty.h>

namespace terrace::ops {
namespace {

AttentionInput widened(AttentionInput input) {
  input.joint = input.joint.to(at::kFloat);
  return input;
}

// fp16 uses the kernels of fp32, since no instruction multiplies fp16 and adds in fp32.
void widened_attention(const AttentionInput& input, const at::Tensor& context, const at::Tensor& log_sums) {
  const at::Tensor wide = at::empty(context.sizes(), context.options().dtype(at::kFloat));
  cpu::attention<float>(widened(input), wide, log_sums);
  context.copy_(wide);
}

void widened_attention_backward(const AttentionInput& input, const at::Tensor& context, const at::Tensor& log_sums,
                                const at::Tensor& context_gradient, const at::Tensor& joint_gradient) {
  const at::Tensor wide = at::empty(joint_gradient.sizes(), joint_gradient.options().dtype(at::kFloat));
  cpu::attention_backward<float>(widened(input), context.to(at::kFloat), log_sums, context_gradient.to(at::kFloat),
                                 wide);
  joint_gradient.copy_(wide);
}

}  // namespace

const AttentionKernels* attention_kernels(const at::Device& device, at::ScalarType type, const HeadLayout& layout) {
  static constexpr AttentionKernels of_fp32 = {"avx512", cpu::attention<float>, cpu::attention_backward<float>};
  static constexpr AttentionKernels of_bf16 = {"avx512_bf16", cpu::attention<c10::BFloat16>,
                                               cpu::attention_backward<c10::BFloat16>};
  static constexpr AttentionKernels of_fp16 = {"avx512", widened_attention, widened_attention_backward};
  if (!device.is_cpu() || layout.head_dim > cpu::largest_head_dim) return nullptr;
  if (type == at::kHalf && cpu::has_avx512(at::kFloat)) return &of_fp16;
  if (!cpu::has_avx512(type)) return nullptr;
  return type == at::kFloat ? &of_fp32 : &of_bf16;
}

}  // namespace terrace::ops
