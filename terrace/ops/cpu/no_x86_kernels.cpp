// Replaces products and attention on processors that are not x86-64.
#include "terrace/base/error.h"
#include "terrace/ops/attention/attention_kernels.h"
#include "terrace/ops/cpu/decode_attention.h"
#include "terrace/ops/cpu/matmul.h"
#include "terrace/ops/cpu/rows_times.h"
#include "terrace/ops/cpu/vector_set.h"

namespace terrace::ops {
namespace cpu {

VectorSet vector_set(c10::ScalarType) { return VectorSet::none; }

void matmul(c10::ScalarType type, const Factor&, const Factor&, int64_t, int64_t, int64_t, const Finish&) {
  TERRACE_CHECK(false, "this processor has no matrix products of {}", c10::toString(type));
}

void matmul_team(c10::ScalarType type, const std::vector<TeamProduct>&) {
  TERRACE_CHECK(false, "this processor has no matrix products of {}", c10::toString(type));
}

void rows_times(c10::ScalarType type, const RowsTimes&) {
  TERRACE_CHECK(false, "this processor has no matrix products of {}", c10::toString(type));
}

void decode_attention(const Heads&, const CachedKeys&, const at::Tensor& context) {
  TERRACE_CHECK(false, "this processor has no attention of {}", c10::toString(context.scalar_type()));
}

}  // namespace cpu

const AttentionKernels* attention_kernels(const at::Device&, at::ScalarType, const HeadLayout&) { return nullptr; }

}  // namespace terrace::ops
