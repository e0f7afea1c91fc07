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

PartialAttention widened(PartialAttention part) {
  for (TokenRange* tokens : {&part.queries, &part.keys}) tokens->vectors = tokens->vectors.to(at::kFloat);
  return part;
}

void widened_partial_attention(const PartialAttention& part, const RunningContext& running) {
  partial_attention<float>(widened(part), running);
}

void widened_context_products(const HeadLayout& layout, const at::Tensor& context, const at::Tensor& context_gradient,
                              const at::Tensor& products) {
  context_products<float>(layout, context.to(at::kFloat), context_gradient.to(at::kFloat), products);
}

void widened_partial_attention_backward(const PartialAttention& part, const at::Tensor& log_sums,
                                        const at::Tensor& products, const at::Tensor& context_gradient,
                                        const PartialGradients& gradients) {
  partial_attention_backward<float>(widened(part), log_sums, products, context_gradient.to(at::kFloat), gradients);
}

template <typename T>
constexpr AttentionKernels kernels_of(const char* name) {
  return {.name = name,
          .forward = attention<T>,
          .backward = attention_backward<T>,
          .add = partial_attention<T>,
          .context_products = context_products<T>,
          .add_gradients = partial_attention_backward<T>};
}

}  // namespace

const AttentionKernels& attention_kernels(c10::ScalarType type) {
  static constexpr AttentionKernels of_fp32 = kernels_of<float>("avx512");
  static constexpr AttentionKernels of_bf16 = kernels_of<c10::BFloat16>("avx512_bf16");
  static constexpr AttentionKernels of_fp16 = {.name = "avx512",
                                               .forward = widened_attention,
                                               .backward = widened_attention_backward,
                                               .add = widened_partial_attention,
                                               .context_products = widened_context_products,
                                               .add_gradients = widened_partial_attention_backward};
  return type == c10::ScalarType::Float ? of_fp32 : type == c10::ScalarType::BFloat16 ? of_bf16 : of_fp16;
}

}  // namespace terrace::ops::cpu::avx512
