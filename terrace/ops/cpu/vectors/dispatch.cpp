// Calls the kernels for the widest vectors that this processor has and torch may use.
#include "terrace/base/error.h"
#include "terrace/ops/cpu/registers.h"
#include "terrace/ops/cpu/vector_set.h"
#include "terrace/ops/cpu/vectors/kernels.h"

namespace terrace::ops {
namespace cpu {
namespace {

void check_type(c10::ScalarType type) {
  TERRACE_CHECK(vector_set(type) != VectorSet::none, "this processor has no kernels of {}", c10::toString(type));
}

}  // namespace

VectorSet vector_set(c10::ScalarType type) {
  using Type = c10::ScalarType;
  if (has_registers_of_64_bytes()) {
    static const bool multiplies_bf16 = __builtin_cpu_supports("avx512bf16");
    return type == Type::Float || (type == Type::BFloat16 && multiplies_bf16) ? VectorSet::avx512 : VectorSet::none;
  }
  const bool has_type = type == Type::Float || type == Type::BFloat16 || type == Type::Half;
  return has_type && has_kernels_of_32_bytes() ? VectorSet::avx2 : VectorSet::none;
}

void matmul(c10::ScalarType type, const Factor& a, const Factor& b, int64_t m, int64_t n, int64_t k,
            const Finish& finish) {
  check_type(type);
  TERRACE_CHECK(finish.out_type == type || finish.out_type == c10::ScalarType::Float,
                "a product of {} cannot be stored as {}", c10::toString(type), c10::toString(finish.out_type));
  if (m == 0 || n == 0) return;
  (vector_set(type) == VectorSet::avx512 ? avx512::matmul : avx2::matmul)(type, a, b, m, n, k, finish);
}

void matmul_team(c10::ScalarType type, const std::vector<TeamProduct>& products) {
  check_type(type);
  for (const TeamProduct& product : products) {
    TERRACE_CHECK(product.finish.out_type == type || product.finish.out_type == c10::ScalarType::Float,
                  "a product of {} cannot be stored as {}", c10::toString(type),
                  c10::toString(product.finish.out_type));
    TERRACE_CHECK(product.finish.kind != Finish::Kind::exponentials, "exponentials of a team");
  }
  (vector_set(type) == VectorSet::avx512 ? avx512::matmul_team : avx2::matmul_team)(type, products);
}

void rows_times(c10::ScalarType type, const RowsTimes& product) {
  check_type(type);
  (vector_set(type) == VectorSet::avx512 ? avx512::rows_times : avx2::rows_times)(type, product);
}

void decode_attention(const Heads& heads, const CachedKeys& cache, const at::Tensor& context) {
  check_type(context.scalar_type());
  const bool wide = vector_set(context.scalar_type()) == VectorSet::avx512;
  (wide ? avx512::decode_attention : avx2::decode_attention)(heads, cache, context);
}

}  // namespace cpu

const AttentionKernels* attention_kernels(const at::Device& device, at::ScalarType type, const HeadLayout& layout) {
  if (!device.is_cpu() || layout.head_dim > largest_head_dim) return nullptr;
  // With AVX-512 fp16 uses the kernels of fp32.
  const bool widens = type == at::kHalf && cpu::vector_set(at::kFloat) == cpu::VectorSet::avx512;
  switch (cpu::vector_set(widens ? at::kFloat : type)) {
    case cpu::VectorSet::avx512:
      return &cpu::avx512::attention_kernels(type);
    case cpu::VectorSet::avx2:
      return &cpu::avx2::attention_kernels(type);
    case cpu::VectorSet::none:
      return nullptr;
  }
  __builtin_unreachable();
}

}  // namespace terrace::ops
