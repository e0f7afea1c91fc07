// Matrix products for processors with AVX2, FMA and F16C.
#include "terrace/ops/cpu/avx2/vectors.h"
#include "terrace/ops/cpu/vectors/kernels.h"
#include "terrace/ops/cpu/vectors/matmul.h"
#include "terrace/ops/cpu/vectors/matmul_team.h"

namespace terrace::ops::cpu::avx2 {

void matmul(c10::ScalarType type, const Factor& a, const Factor& b, int64_t m, int64_t n, int64_t k,
            const Finish& finish) {
  for_element_type(type, [&]<typename T>(T) { multiply<T>(a, b, {m, n, k}, finish); });
}

void matmul_team(c10::ScalarType type, const std::vector<TeamProduct>& products) {
  for_element_type(type, [&]<typename T>(T) { multiply_team<T>(products); });
}

}  // namespace terrace::ops::cpu::avx2
