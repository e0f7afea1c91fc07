// GELU and its slope on vectors, in the form with tanh, for results in the type T on processors with AVX-512.
#pragma once

#include "terrace/ops/cpu/avx512/vectors.h"

namespace terrace::ops::cpu {

// 1 / x for x in [1, 2^127], to about one ulp.
TERRACE_AVX512_INLINE __m512 reciprocal(__m512 x) {
  const __m512 guess = _mm512_rcp14_ps(x);
  return _mm512_mul_ps(guess, _mm512_fnmadd_ps(x, guess, _mm512_set1_ps(2.0F)));
}

// gelu(x) = x s with s = sigmoid(2 u) and u = sqrt(2 / pi) (x + 0.044715 x^3), the form with tanh of Hendrycks and
// Gimpel (arXiv 1606.08415).
struct GeluShare {
  __m512 share;     // s
  __m512 opposite;  // (1 - s) / s, which keeps its digits where s is almost 1
};

template <typename T>
TERRACE_AVX512_INLINE GeluShare gelu_share(__m512 x, __m512 square) {
  const __m512 inner = _mm512_fmadd_ps(square, _mm512_set1_ps(0.044715F), _mm512_set1_ps(1.0F));
  // -2 sqrt(2 / pi) log2(e)
  const __m512 exponent = _mm512_mul_ps(_mm512_mul_ps(x, _mm512_set1_ps(-2.302208198F)), inner);
  const __m512 opposite = power_of_two<T>(_mm512_min_ps(exponent, _mm512_set1_ps(126.0F)));
  return {reciprocal(_mm512_add_ps(opposite, _mm512_set1_ps(1.0F))), opposite};
}

template <typename T>
TERRACE_AVX512_INLINE __m512 gelu_slope(__m512 x) {
  const __m512 square = _mm512_mul_ps(x, x);
  const GeluShare gelu = gelu_share<T>(x, square);
  // 2 du/dx = 2 sqrt(2 / pi) (1 + 3 * 0.044715 x^2)
  const __m512 growth = _mm512_fmadd_ps(square, _mm512_set1_ps(0.2140644488F), _mm512_set1_ps(1.595769122F));
  const __m512 rest = _mm512_mul_ps(_mm512_mul_ps(gelu.share, gelu.opposite), gelu.share);  // s (1 - s)
  return _mm512_fmadd_ps(_mm512_mul_ps(x, growth), rest, gelu.share);
}

}  // namespace terrace::ops::cpu
