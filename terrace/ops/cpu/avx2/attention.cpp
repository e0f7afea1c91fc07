// Attention for processors with AVX2, FMA and F16C.
#include "terrace/ops/cpu/avx2/vectors.h"
#include "terrace/ops/cpu/vectors/attention_backward.h"
#include "terrace/ops/cpu/vectors/attention_forward.h"
#include "terrace/ops/cpu/vectors/kernels.h"

namespace terrace::ops::cpu::avx2 {
namespace {

template <typename T>
constexpr AttentionKernels kernels_of{.name = "avx2",
                                      .forward = attention<T>,
                                      .backward = attention_backward<T>,
                                      .add = partial_attention<T>,
                                      .context_products = context_products<T>,
                                      .add_gradients = partial_attention_backward<T>};

}  // namespace

const AttentionKernels& attention_kernels(c10::ScalarType type) {
  const AttentionKernels* kernels = nullptr;
  for_element_type(type, [&]<typename T>(T) { kernels = &kernels_of<T>; });
  return *kernels;
}

}  // namespace terrace::ops::cpu::avx2
