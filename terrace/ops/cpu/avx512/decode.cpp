// Products of a few rows, and attention of one query over cached keys, for processors with AVX-512.
#include "terrace/ops/cpu/avx512/vectors.h"
#include "terrace/ops/cpu/vectors/decode_attention.h"
#include "terrace/ops/cpu/vectors/kernels.h"
#include "terrace/ops/cpu/vectors/rows_times.h"

namespace terrace::ops::cpu::avx512 {

void rows_times(c10::ScalarType type, const RowsTimes& product) {
  for_element_type(type, [&]<typename T>(T) { multiply_rows<T>(product); });
}

void decode_attention(const Heads& heads, const CachedKeys& cache, const at::Tensor& context) {
  for_element_type(context.scalar_type(), [&]<typename T>(T) { decode<T>(heads, cache, context); });
}

}  // namespace terrace::ops::cpu::avx512
