// AdamW and sums of squares on the CPU, vectorized by the compiler for three generations of processors.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <cmath>

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

template <typename G>
at::Tensor sum_pieces(double (*kernel)(const G*, int64_t), const at::Tensor& gradient) {
  const int64_t size = gradient.numel();
  const int64_t pieces = (size + norm_piece - 1) / norm_piece;
  at::Tensor sums = at::empty({pieces}, at::kDouble);
  const G* g = gradient.const_data_ptr<G>();
  double* out = sums.data_ptr<double>();
  at::parallel_for(0, pieces, 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      out[i] = kernel(g + i * norm_piece, std::min(norm_piece, size - i * norm_piece));
  });
  return sums;
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

at::Tensor squares_by_piece_cpu(const at::Tensor& gradient) {
  switch (gradient.scalar_type()) {
    case at::kFloat:
      return sum_pieces(squares_fp32, gradient);
    case at::kBFloat16:
      return sum_pieces(squares_bf16, gradient);
    case at::kHalf:
      return sum_pieces(squares_fp16, gradient);
    default:
      TERRACE_CHECK(false, "gradients of {}", at::toString(gradient.scalar_type()));
  }
  return {};
}

}  // namespace terrace::optim
