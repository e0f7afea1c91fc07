// Attention for processors with AVX-512.
#include "terrace/ops/cpu/avx512/vectors.h"
#include "terrace/ops/cpu/vectors/attention_backward.h"
#include "terrace/ops/cpu/vectors/attention_forward.h"
#include "terrace/ops/cpu/vectors/kernels.h"

namespace terrace::ops::cpu::avx512 {
namespace {

AttentionInput widened(AttentionInput input) {
  input.joint = input.joint.to(at::kFloat);
  return input;
}

// fp16 uses the kernels of fp32, since no instruction multiplies fp16 and adds in fp32.
void widened_attention(const AttentionInput& input, const at::Tensor& context, const at::Tensor& log_sums) {
  const at::Tensor wide = at::empty(context.sizes(), context.options().dtype(at::kFloat));
  attention<float>(widened(input), wide, log_sums);
  context.copy_(wide);
}

void widened_attention_backward(const AttentionInput& input, const at::Tensor& context, const at::Tensor& log_sums,
                                const at::Tensor& context_gradient, const at::Tensor& joint_gradient) {
  const at::Tensor wide = at::empty(joint_gradient.sizes(), joint_gradient.options().dtype(at::kFloat));
  attention_backward<float>(widened(input), context.to(at::kFloat), log_sums, context_gradient.to(at::kFloat), wide);
  joint_gradient.copy_(wide);
}

}  // namespace

const AttentionKernels& attention_kernels(c10::ScalarType type) {
  static constexpr AttentionKernels of_fp32 = {"avx512", attention<float>, attention_backward<float>};
  static constexpr AttentionKernels of_bf16 = {"avx512_bf16", attention<c10::BFloat16>,
                                               attention_backward<c10::BFloat16>};
  static constexpr AttentionKernels of_fp16 = {"avx512", widened_attention, widened_attention_backward};
  return type == c10::ScalarType::Float ? of_fp32 : type == c10::ScalarType::BFloat16 ? of_bf16 : of_fp16;
}

}  // namespace terrace::ops::cpu::avx512
