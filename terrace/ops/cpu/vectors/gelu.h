// GELU and its slope on one vector or several, in the form with tanh, for results in the type T.
#pragma once

#include "terrace/ops/cpu/vectors/exponential.h"
#include "terrace/ops/cpu/vectors/lockstep.h"
#include "terrace/ops/cpu/vectors/vectors.h"

namespace terrace::ops::cpu::TERRACE_VECTOR_SET {

// gelu(x) = x s with s = sigmoid(2 u) and u = sqrt(2 / pi) (x + 0.044715 x^3), the form with tanh of Hendrycks and
// Gimpel (arXiv 1606.08415).
template <typename V>
struct GeluShare {
  V share;     // s
  V opposite;  // (1 - s) / s, which keeps its digits where s is almost 1
};

template <typename T, typename V>
TERRACE_VECTOR_INLINE GeluShare<V> gelu_share(const V& x, const V& square) {
  const V inner = times_plus(square, broadcast(0.044715F), broadcast(1.0F));
  // -2 sqrt(2 / pi) log2(e)
  const V exponent = x * broadcast(-2.302208198F) * inner;
  const V opposite = power_of_two<T>(smaller(exponent, V(broadcast(126.0F))));
  return {reciprocal(opposite + broadcast(1.0F)), opposite};
}

template <typename T, typename V>
TERRACE_VECTOR_INLINE V gelu(const V& x) {
  return x * gelu_share<T>(x, V(x * x)).share;
}

template <typename T, typename V>
TERRACE_VECTOR_INLINE V gelu_slope(const V& x) {
  const V square = x * x;
  const GeluShare<V> gelu = gelu_share<T>(x, square);
  // 2 du/dx = 2 sqrt(2 / pi) (1 + 3 * 0.044715 x^2)
  const V growth = times_plus(square, broadcast(0.2140644488F), broadcast(1.595769122F));
  const V rest = gelu.share * gelu.opposite * gelu.share;  // s (1 - s)
  return times_plus(x * growth, rest, gelu.share);
}

}  // namespace terrace::ops::cpu::TERRACE_VECTOR_SET
