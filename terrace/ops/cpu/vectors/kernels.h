// The kernels of this folder as they are compiled for each kind of vectors. A processor without the instructions cannot
// run them; vector_set() says which it can, and the functions of ../matmul.h and the others call those.
#pragma once

#include "terrace/ops/attention/attention_kernels.h"
#include "terrace/ops/cpu/decode_attention.h"
#include "terrace/ops/cpu/matmul.h"
#include "terrace/ops/cpu/rows_times.h"

#define TERRACE_KERNELS_OF_VECTORS                                                                     \
  void matmul(c10::ScalarType type, const Factor& a, const Factor& b, int64_t m, int64_t n, int64_t k, \
              const Finish& finish);                                                                   \
  void matmul_team(c10::ScalarType type, const std::vector<TeamProduct>& products);                    \
  void rows_times(c10::ScalarType type, const RowsTimes& product);                                     \
  void decode_attention(const Heads& heads, const CachedKeys& cache, const at::Tensor& context);       \
  const AttentionKernels& attention_kernels(c10::ScalarType type);

// The kernels for vectors of sixteen numbers: of fp32 and bf16; attention also of fp16.
namespace terrace::ops::cpu::avx512 {
TERRACE_KERNELS_OF_VECTORS
}

// The kernels for vectors of eight numbers: of fp32, bf16 and fp16.
namespace terrace::ops::cpu::avx2 {
TERRACE_KERNELS_OF_VECTORS
}

#undef TERRACE_KERNELS_OF_VECTORS
