// SwiGLU and its slopes on one vector of pairs or several, for processors with AVX-512.
#pragma once

#include <algorithm>

#include "terrace/ops/cpu/avx512/exponential.h"
#include "terrace/ops/cpu/avx512/lockstep.h"
#include "terrace/ops/cpu/avx512/vectors.h"

namespace terrace::ops::cpu {

// Pairs of gate and up.
template <typename V>
struct Gated {
  V gate, up;
};

// The pairs whose numbers are in two vectors, interleaved.
TERRACE_AVX512_INLINE Gated<OneVector> pairs_of(const TwoVectors& x) {
  const __m512i evens = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odds = _mm512_or_si512(evens, _mm512_set1_epi32(1));
  return {_mm512_permutex2var_ps(x.first, evens, x.second), _mm512_permutex2var_ps(x.first, odds, x.second)};
}

TERRACE_AVX512_INLINE Gated<TwoVectors> pairs_of(const FourVectors& x) {
  const Gated<OneVector> first = pairs_of(x.first), second = pairs_of(x.second);
  return {{first.gate, second.gate}, {first.up, second.up}};
}

// Load and store the first `count` pairs; the others are 0.
template <typename T>
TERRACE_AVX512_INLINE Gated<OneVector> load_pairs(const T* from, int64_t count) {
  if constexpr (std::is_same_v<T, float>) {
    return pairs_of(load_first<TwoVectors>(from, 2 * count));
  } else {
    // A pair is a word, whose low half is the gate.
    const __m512i words = _mm512_maskz_loadu_epi32(first_lanes_or_none(count), from);
    return {_mm512_castsi512_ps(_mm512_slli_epi32(words, 16)),
            _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(static_cast<int>(0xFFFF0000))))};
  }
}

template <typename T>
TERRACE_AVX512_INLINE void store_pairs(T* to, const Gated<OneVector>& pairs, int64_t count) {
  if constexpr (std::is_same_v<T, float>) {
    const __m512i lower = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i upper = _mm512_add_epi32(lower, _mm512_set1_epi32(8));
    store_first(to,
                TwoVectors(_mm512_permutex2var_ps(pairs.gate, lower, pairs.up),
                           _mm512_permutex2var_ps(pairs.gate, upper, pairs.up)),
                2 * count);
  } else {
    _mm512_mask_storeu_epi32(to, first_lanes_or_none(count), _mm512_castps_si512(paired(pairs.gate, pairs.up)));
  }
}

// 1 / (1 + e^-x), for results in the type.
template <typename T, typename V>
TERRACE_AVX512_INLINE V sigmoid(const V& x) {
  const V opposite = exponential<T>(V(V(_mm512_setzero_ps()) - x));
  return reciprocal(V(opposite + _mm512_set1_ps(1.0F)));
}

// silu(gate) * up (Shazeer, arXiv 2002.05202).
template <typename T, typename V>
TERRACE_AVX512_INLINE V swiglu(const Gated<V>& x) {
  return x.gate * sigmoid<T>(x.gate) * x.up;
}

// The gradients of gate and up for the gradient `slope` of the result.
template <typename T, typename V>
TERRACE_AVX512_INLINE Gated<V> swiglu_slopes(const V& slope, const Gated<V>& x) {
  const V share = sigmoid<T>(x.gate), scaled = slope * share, one(_mm512_set1_ps(1.0F));
  const V growth = times_plus(x.gate, one - share, one);
  return {scaled * x.up * growth, scaled * x.gate};
}

}  // namespace terrace::ops::cpu
