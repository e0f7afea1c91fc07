// Powers of two and of e on one vector or several, for results in the type T on processors with AVX-512.
#pragma once

#include <type_traits>

#include "terrace/ops/cpu/avx512/lockstep.h"
#include "terrace/ops/cpu/avx512/vectors.h"

namespace terrace::ops::cpu {

// 2^f for f in [-1/2, 1/2]: a minimax polynomial with an error of 2e-9 in fp32, or 3e-6 if the result is rounded to
// bf16.
template <typename T, typename V>
TERRACE_AVX512_INLINE V power_of_fraction(const V& f) {
  V sum;
  if constexpr (std::is_same_v<T, float>) {
    sum = times_plus(f, _mm512_set1_ps(1.5353361e-4F), _mm512_set1_ps(1.3398874e-3F));
    sum = times_plus(sum, f, _mm512_set1_ps(9.6184369e-3F));
    sum = times_plus(sum, f, _mm512_set1_ps(5.5503324e-2F));
    sum = times_plus(sum, f, _mm512_set1_ps(2.4022648e-1F));
    sum = times_plus(sum, f, _mm512_set1_ps(6.9314718e-1F));
  } else {
    sum = times_plus(f, _mm512_set1_ps(9.5828529e-3F), _mm512_set1_ps(5.5906426e-2F));
    sum = times_plus(sum, f, _mm512_set1_ps(2.4024099e-1F));
    sum = times_plus(sum, f, _mm512_set1_ps(6.9312408e-1F));
  }
  return times_plus(sum, f, _mm512_set1_ps(1.0F));
}

// 2^x for x of at most 127; the result is at least 2^-126, since subnormal numbers are slow.
template <typename T, typename V>
TERRACE_AVX512_INLINE V power_of_two(const V& x) {
  const V limited = larger(V(_mm512_set1_ps(-126.0F)), x);  // with this order of arguments a NaN stays a NaN
  const V n = nearest_integer(limited);
  return scaled_by_power(power_of_fraction<T>(limited - n), n);
}

// e^x with x clamped to [-87, 87], to about one ulp, or with an error of 3e-6 if the result is rounded to bf16.
template <typename T, typename V>
TERRACE_AVX512_INLINE V exponential(const V& x) {
  const V limited = smaller(V(_mm512_set1_ps(87.0F)), larger(V(_mm512_set1_ps(-87.0F)), x));
  const __m512 log2_e = _mm512_set1_ps(1.44269502F);
  const V n = nearest_integer(limited * log2_e);
  V f = times_minus(limited, log2_e, n);
  // The rest of log2 e.
  if constexpr (std::is_same_v<T, float>) f = times_plus(limited, _mm512_set1_ps(1.92596299e-8F), f);
  return scaled_by_power(power_of_fraction<T>(f), n);
}

// 1 / x for x in [1, 2^127], to about one ulp.
template <typename V>
TERRACE_AVX512_INLINE V reciprocal(const V& x) {
  const V guess = rough_reciprocal(x);
  return guess * minus_times(V(_mm512_set1_ps(2.0F)), x, guess);
}

}  // namespace terrace::ops::cpu
