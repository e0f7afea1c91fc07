// SwiGLU and its slopes on vectors of pairs, for processors with AVX-512.
#pragma once

#include "terrace/ops/cpu/avx512/gelu.h"
#include "terrace/ops/cpu/avx512/vectors.h"

namespace terrace::ops::cpu {

// Sixteen pairs of gate and up.
struct Gated {
  __m512 gate, up;
};

// The pairs whose numbers are in two vectors, in turns.
TERRACE_AVX512_INLINE Gated pairs_of(__m512 first, __m512 second) {
  const __m512i evens = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odds = _mm512_or_si512(evens, _mm512_set1_epi32(1));
  return {_mm512_permutex2var_ps(first, evens, second), _mm512_permutex2var_ps(first, odds, second)};
}

// Load and store the first `count` pairs; the others are 0.
template <typename T>
TERRACE_AVX512_INLINE Gated load_pairs(const T* from, int64_t count) {
  if constexpr (std::is_same_v<T, float>) {
    return pairs_of(load_wide(from, first_lanes(2 * count)),
                    load_wide(from + lanes, first_lanes(std::max<int64_t>(2 * count - lanes, 0))));
  } else {
    // A pair is a word, whose low half is the gate.
    const __m512i words = _mm512_maskz_loadu_epi32(first_lanes(count), from);
    return {_mm512_castsi512_ps(_mm512_slli_epi32(words, 16)),
            _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(static_cast<int>(0xFFFF0000))))};
  }
}

template <typename T>
TERRACE_AVX512_INLINE void store_pairs(T* to, const Gated& pairs, int64_t count) {
  if constexpr (std::is_same_v<T, float>) {
    const __m512i lower = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i upper = _mm512_add_epi32(lower, _mm512_set1_epi32(8));
    store_narrow(to, _mm512_permutex2var_ps(pairs.gate, lower, pairs.up), first_lanes(2 * count));
    store_narrow(to + lanes, _mm512_permutex2var_ps(pairs.gate, upper, pairs.up),
                 first_lanes(std::max<int64_t>(2 * count - lanes, 0)));
  } else {
    _mm512_mask_storeu_epi32(to, first_lanes(count), _mm512_castps_si512(paired(pairs.gate, pairs.up)));
  }
}

// 1 / (1 + e^-x), for results in the type.
template <typename T>
TERRACE_AVX512_INLINE __m512 sigmoid(__m512 x) {
  const __m512 opposite = exponential<T>(_mm512_sub_ps(_mm512_setzero_ps(), x));
  return reciprocal(_mm512_add_ps(opposite, _mm512_set1_ps(1.0F)));
}

// silu(gate) * up (Shazeer, arXiv 2002.05202).
template <typename T>
TERRACE_AVX512_INLINE __m512 swiglu(const Gated& x) {
  return _mm512_mul_ps(_mm512_mul_ps(x.gate, sigmoid<T>(x.gate)), x.up);
}

// The gradients of gate and up for the gradient `slope` of the result.
template <typename T>
TERRACE_AVX512_INLINE Gated swiglu_slopes(__m512 slope, const Gated& x) {
  const __m512 share = sigmoid<T>(x.gate), scaled = _mm512_mul_ps(slope, share), one = _mm512_set1_ps(1.0F);
  const __m512 growth = _mm512_fmadd_ps(x.gate, _mm512_sub_ps(one, share), one);
  return {_mm512_mul_ps(_mm512_mul_ps(scaled, x.up), growth), _mm512_mul_ps(scaled, x.gate)};
}

}  // namespace terrace::ops::cpu
