// SwiGLU and its slopes on one vector of pairs or several.
#pragma once

#include <algorithm>

#include "terrace/ops/cpu/vectors/exponential.h"
#include "terrace/ops/cpu/vectors/lockstep.h"
#include "terrace/ops/cpu/vectors/vectors.h"

namespace terrace::ops::cpu::TERRACE_VECTOR_SET {

// Pairs of gate and up.
template <typename V>
struct Gated {
  V gate, up;
};

// The pairs whose numbers are in two vectors, interleaved.
TERRACE_VECTOR_INLINE Gated<OneVector> pairs_of(const TwoVectors& x) {
  return {evens_of(x.first, x.second), odds_of(x.first, x.second)};
}

TERRACE_VECTOR_INLINE Gated<TwoVectors> pairs_of(const FourVectors& x) {
  const Gated<OneVector> first = pairs_of(x.first), second = pairs_of(x.second);
  return {{first.gate, second.gate}, {first.up, second.up}};
}

// Load and store the first `count` pairs; the others are 0.
template <typename T>
TERRACE_VECTOR_INLINE Gated<OneVector> load_pairs(const T* from, int64_t count) {
  if constexpr (word_elements<T> == 1) {
    return pairs_of(load_first<TwoVectors>(from, 2 * count));
  } else {
    // A pair is a word, whose low half is the gate.
    const OneVector words = load(from, count);
    return {low_halves<T>(words), high_halves<T>(words)};
  }
}

template <typename T>
TERRACE_VECTOR_INLINE void store_pairs(T* to, const Gated<OneVector>& pairs, int64_t count) {
  if constexpr (word_elements<T> == 1) {
    store_first(to, TwoVectors(first_interleaved(pairs.gate, pairs.up), second_interleaved(pairs.gate, pairs.up)),
                2 * count);
  } else {
    store(to, paired<T>(pairs.gate, pairs.up), count);
  }
}

// 1 / (1 + e^-x), for results in the type.
template <typename T, typename V>
TERRACE_VECTOR_INLINE V sigmoid(const V& x) {
  const V opposite = exponential<T>(V(V(zeros()) - x));
  return reciprocal(V(opposite + broadcast(1.0F)));
}

// silu(gate) * up (Shazeer, arXiv 2002.05202).
template <typename T, typename V>
TERRACE_VECTOR_INLINE V swiglu(const Gated<V>& x) {
  return x.gate * sigmoid<T>(x.gate) * x.up;
}

// The gradients of gate and up for the gradient `slope` of the result.
template <typename T, typename V>
TERRACE_VECTOR_INLINE Gated<V> swiglu_slopes(const V& slope, const Gated<V>& x) {
  const V share = sigmoid<T>(x.gate), scaled = slope * share, one(broadcast(1.0F));
  const V growth = times_plus(x.gate, one - share, one);
  return {scaled * x.up * growth, scaled * x.gate};
}

}  // namespace terrace::ops::cpu::TERRACE_VECTOR_SET
