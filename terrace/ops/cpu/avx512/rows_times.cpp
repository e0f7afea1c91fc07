// Computes products of a few rows with a weight, sixteen outputs at a time.
#include "terrace/ops/cpu/rows_times.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/ops/cpu/avx512/dot.h"
#include "terrace/ops/cpu/avx512/gelu.h"

namespace terrace::ops::cpu {
namespace {

// Rounds the sums [rows, lanes] of the outputs from `first` on, adds the bias and stores them, with their GELU where it
// is asked for.
template <typename T>
TERRACE_AVX512 void finish_outputs(const RowsTimes& p, int64_t first, const float* sums) {
  const __mmask16 mask = first_lanes(p.outputs - first);
  const T* bias = static_cast<const T*>(p.bias);
  for (int64_t row = 0; row < p.rows; ++row) {
    __m512 value = _mm512_loadu_ps(sums + row * lanes);
    if (bias) value = _mm512_add_ps(value, load_wide(bias + first, mask));
    store_narrow(static_cast<T*>(p.out) + row * p.out_stride + first, value, mask);
    if (!p.active) continue;
    store_narrow(static_cast<T*>(p.active) + row * p.outputs + first, gelu<T>(rounded<T>(value)), mask);
  }
}

template <typename T>
void multiply_rows(const RowsTimes& p) {
  const int64_t groups = (p.rows + dot_rows - 1) / dot_rows, blocks = (p.outputs + lanes - 1) / lanes;
  at::parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> sums(static_cast<size_t>(p.rows * lanes));
    for (int64_t first = begin * lanes; first < std::min(p.outputs, end * lanes); first += lanes) {
      for (int64_t o = first; o < std::min(p.outputs, first + lanes); o += dot_outputs) {
        const T* weight = static_cast<const T*>(p.weight) + o * p.weight_stride;
        for (int64_t group = 0; group < groups; ++group) {
          const int64_t row = group * p.rows / groups, rows = (group + 1) * p.rows / groups - row;
          dot_tile_of<T>(rows)(static_cast<const T*>(p.x) + row * p.x_stride, p.x_stride, weight, p.weight_stride,
                               p.outputs - o, p.inputs, group == 0, sums.data() + row * lanes + o - first, lanes);
        }
      }
      finish_outputs<T>(p, first, sums.data());
    }
  });
}

}  // namespace

bool has_rows_times(c10::ScalarType type) { return has_avx512(type); }

void rows_times(c10::ScalarType type, const RowsTimes& product) {
  TERRACE_CHECK(has_rows_times(type), "this processor has no matrix products of {}", c10::toString(type));
  if (type == c10::ScalarType::Float) {
    multiply_rows<float>(product);
  } else {
    multiply_rows<c10::BFloat16>(product);
  }
}

}  // namespace terrace::ops::cpu
