// AdamW and sums of squares on the CPU, vectorized by the compiler for three generations of processors.
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "terrace/base/error.h"
#include "terrace/base/vector_clones.h"
#include "terrace/optim/kernels.h"

namespace terrace::optim {
namespace {

template <typename T>
inline float load(T x) {
  return static_cast<float>(x);
}

template <typename G>
inline void update(const AdamWCoefficients& c, G gradient, float& p, float& m, float& v) {
  const float g = load(gradient) * c.multiplier;
  m += (g - m) * c.one_minus_beta1;
  v = v * c.beta2 + c.one_minus_beta2 * (g * g);
  const float denominator = std::sqrt(v) * c.inverse_root_correction2 + c.epsilon;
  p = p * c.keep - c.rate * (m / denominator);
}

// One function per pair of types, since target_clones cannot be put on a template.
#define TERRACE_ADAMW(name, G, V)                                                                                    \
  TERRACE_VECTOR_CLONES void name(const AdamWCoefficients& coefficients, const G* __restrict g, float* __restrict p, \
                                  float* __restrict m, float* __restrict v, V* __restrict value, int64_t n) {        \
    const AdamWCoefficients c = coefficients;                                                                        \
    for (int64_t i = 0; i < n; ++i) {                                                                                \
      update(c, g[i], p[i], m[i], v[i]);                                                                             \
      value[i] = static_cast<V>(p[i]);                                                                               \
    }                                                                                                                \
  }
#define TERRACE_ADAMW_IN_PLACE(name, G)                                                                              \
  TERRACE_VECTOR_CLONES void name(const AdamWCoefficients& coefficients, const G* __restrict g, float* __restrict p, \
                                  float* __restrict m, float* __restrict v, int64_t n) {                             \
    const AdamWCoefficients c = coefficients;                                                                        \
    for (int64_t i = 0; i < n; ++i) update(c, g[i], p[i], m[i], v[i]);                                               \
  }

TERRACE_ADAMW_IN_PLACE(fp32_in_place, float)
TERRACE_ADAMW_IN_PLACE(bf16_in_place, at::BFloat16)
TERRACE_ADAMW_IN_PLACE(fp16_in_place, at::Half)
TERRACE_ADAMW(fp32_to_bf16, float, at::BFloat16)
TERRACE_ADAMW(fp32_to_fp16, float, at::Half)
TERRACE_ADAMW(bf16_to_bf16, at::BFloat16, at::BFloat16)
TERRACE_ADAMW(fp16_to_fp16, at::Half, at::Half)

// Sixteen interleaved partial sums, so that the order of the additions does not depend on the width of the vectors.
#define TERRACE_SQUARES(name, G)                                        \
  TERRACE_VECTOR_CLONES double name(const G* __restrict g, int64_t n) { \
    constexpr int64_t lanes = 16;                                       \
    double sums[lanes] = {};                                            \
    const int64_t whole = n / lanes * lanes;                            \
    for (int64_t i = 0; i < whole; i += lanes) {                        \
      for (int64_t lane = 0; lane < lanes; ++lane) {                    \
        const double x = load(g[i + lane]);                             \
        sums[lane] += x * x;                                            \
      }                                                                 \
    }                                                                   \
    for (int64_t i = whole; i < n; ++i) {                               \
      const double x = load(g[i]);                                      \
      sums[i - whole] += x * x;                                         \
    }                                                                   \
    double total = 0;                                                   \
    for (double sum : sums) total += sum;                               \
    return total;                                                       \
  }

TERRACE_SQUARES(squares_fp32, float)
TERRACE_SQUARES(squares_bf16, at::BFloat16)
TERRACE_SQUARES(squares_fp16, at::Half)

template <typename G, typename V>
void run(void (*kernel)(const AdamWCoefficients&, const G*, float*, float*, float*, V*, int64_t),
         const AdamWCoefficients& c, const at::Tensor& gradient, at::Tensor& master, at::Tensor& m, at::Tensor& v,
         at::Tensor& value) {
  const G* g = gradient.const_data_ptr<G>();
  float *p = master.data_ptr<float>(), *first = m.data_ptr<float>(), *second = v.data_ptr<float>();
  V* out = value.data_ptr<V>();
  at::parallel_for(0, gradient.numel(), 16384, [&](int64_t begin, int64_t end) {
    kernel(c, g + begin, p + begin, first + begin, second + begin, out + begin, end - begin);
  });
}

template <typename G>
void run_in_place(void (*kernel)(const AdamWCoefficients&, const G*, float*, float*, float*, int64_t),
                  const AdamWCoefficients& c, const at::Tensor& gradient, at::Tensor& master, at::Tensor& m,
                  at::Tensor& v) {
  const G* g = gradient.const_data_ptr<G>();
  float *p = master.data_ptr<float>(), *first = m.data_ptr<float>(), *second = v.data_ptr<float>();
  at::parallel_for(0, gradient.numel(), 16384, [&](int64_t begin, int64_t end) {
    kernel(c, g + begin, p + begin, first + begin, second + begin, end - begin);
  });
}

// The threads add to the first row in any order, since the order does not matter.
template <typename G>
void sum_pieces(double (*kernel)(const G*, int64_t), const at::Tensor& gradient, int64_t first, at::Tensor& rows) {
  const int64_t size = gradient.numel(), before = norm_piece - first;
  const int64_t pieces = (before + size + norm_piece - 1) / norm_piece;
  const G* g = gradient.const_data_ptr<G>();
  int64_t* const row = rows.data_ptr<int64_t>();
  std::mutex mutex;
  at::parallel_for(0, pieces, 16, [&](int64_t begin, int64_t end) {
    ExactSum sum = {};
    for (int64_t i = begin; i < end; ++i) {
      const int64_t from = std::max<int64_t>(0, i * norm_piece - before), to = (i + 1) * norm_piece - before;
      add_exactly(kernel(g + from, std::min(to, size) - from), sum.data());
    }
    const std::lock_guard lock(mutex);
    for (size_t i = 0; i < sum.size(); ++i) row[i] += sum[i];
  });
}

}  // namespace

void adamw_step_cpu(const AdamWStep& step, const at::Tensor& gradient, at::Tensor& master, at::Tensor& m, at::Tensor& v,
                    at::Tensor& value) {
  const AdamWCoefficients c(step);
  const at::ScalarType from = gradient.scalar_type();
  if (value.is_same(master)) {
    if (from == at::kFloat) return run_in_place(fp32_in_place, c, gradient, master, m, v);
    if (from == at::kBFloat16) return run_in_place(bf16_in_place, c, gradient, master, m, v);
    if (from == at::kHalf) return run_in_place(fp16_in_place, c, gradient, master, m, v);
  }
  const at::ScalarType to = value.scalar_type();
  if (from == at::kFloat && to == at::kBFloat16) return run(fp32_to_bf16, c, gradient, master, m, v, value);
  if (from == at::kFloat && to == at::kHalf) return run(fp32_to_fp16, c, gradient, master, m, v, value);
  if (from == at::kBFloat16 && to == at::kBFloat16) return run(bf16_to_bf16, c, gradient, master, m, v, value);
  if (from == at::kHalf && to == at::kHalf) return run(fp16_to_fp16, c, gradient, master, m, v, value);
  TERRACE_CHECK(false, "gradients of type {} with weights of type {}", at::toString(from), at::toString(to));
}

void add_squares_cpu(const at::Tensor& gradient, int64_t first, at::Tensor& rows) {
  switch (gradient.scalar_type()) {
    case at::kFloat:
      return sum_pieces(squares_fp32, gradient, first, rows);
    case at::kBFloat16:
      return sum_pieces(squares_bf16, gradient, first, rows);
    case at::kHalf:
      return sum_pieces(squares_fp16, gradient, first, rows);
    default:
      TERRACE_CHECK(false, "gradients of {}", at::toString(gradient.scalar_type()));
  }
}

}  // namespace terrace::optim
