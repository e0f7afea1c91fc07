// Vectors that are computed with in lockstep: the processor begins an operation on one of them while those on the
// others are under way. Functions of numbers (exponentials, GELU, ..) are templates over one vector or several.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "terrace/ops/cpu/avx512/vectors.h"

namespace terrace::ops::cpu {

// __m512 without the attribute that template arguments do not have.
using OneVector = float __attribute__((vector_size(64)));

// a * b + c, a * b - c and c - a * b, rounded once.
TERRACE_AVX512_INLINE __m512 times_plus(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
TERRACE_AVX512_INLINE __m512 times_minus(__m512 a, __m512 b, __m512 c) { return _mm512_fmsub_ps(a, b, c); }
TERRACE_AVX512_INLINE __m512 minus_times(__m512 c, __m512 a, __m512 b) { return _mm512_fnmadd_ps(a, b, c); }
// If b is a NaN, so is the result.
TERRACE_AVX512_INLINE __m512 smaller(__m512 a, __m512 b) { return _mm512_min_ps(a, b); }
TERRACE_AVX512_INLINE __m512 larger(__m512 a, __m512 b) { return _mm512_max_ps(a, b); }
TERRACE_AVX512_INLINE __m512 nearest_integer(__m512 x) {
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// x * 2^n for an integer n.
TERRACE_AVX512_INLINE __m512 scaled_by_power(__m512 x, __m512 n) { return _mm512_scalef_ps(x, n); }
// 1 / x with a relative error of at most 2^-14.
TERRACE_AVX512_INLINE __m512 rough_reciprocal(__m512 x) { return _mm512_rcp14_ps(x); }

// Two of what V is: one vector, or several.
template <typename V>
struct Twice {
  V first, second;

  Twice() = default;
  TERRACE_AVX512_INLINE Twice(const V& a, const V& b) : first(a), second(b) {}
  TERRACE_AVX512_INLINE Twice(__m512 each) : first(each), second(each) {}  // NOLINT(google-explicit-constructor)

  friend TERRACE_AVX512_INLINE Twice operator+(const Twice& a, const Twice& b) {
    return {a.first + b.first, a.second + b.second};
  }
  friend TERRACE_AVX512_INLINE Twice operator-(const Twice& a, const Twice& b) {
    return {a.first - b.first, a.second - b.second};
  }
  friend TERRACE_AVX512_INLINE Twice operator*(const Twice& a, const Twice& b) {
    return {a.first * b.first, a.second * b.second};
  }
  friend TERRACE_AVX512_INLINE Twice times_plus(const Twice& a, const Twice& b, const Twice& c) {
    return {times_plus(a.first, b.first, c.first), times_plus(a.second, b.second, c.second)};
  }
  friend TERRACE_AVX512_INLINE Twice times_minus(const Twice& a, const Twice& b, const Twice& c) {
    return {times_minus(a.first, b.first, c.first), times_minus(a.second, b.second, c.second)};
  }
  friend TERRACE_AVX512_INLINE Twice minus_times(const Twice& c, const Twice& a, const Twice& b) {
    return {minus_times(c.first, a.first, b.first), minus_times(c.second, a.second, b.second)};
  }
  friend TERRACE_AVX512_INLINE Twice smaller(const Twice& a, const Twice& b) {
    return {smaller(a.first, b.first), smaller(a.second, b.second)};
  }
  friend TERRACE_AVX512_INLINE Twice larger(const Twice& a, const Twice& b) {
    return {larger(a.first, b.first), larger(a.second, b.second)};
  }
  friend TERRACE_AVX512_INLINE Twice nearest_integer(const Twice& x) {
    return {nearest_integer(x.first), nearest_integer(x.second)};
  }
  friend TERRACE_AVX512_INLINE Twice scaled_by_power(const Twice& x, const Twice& n) {
    return {scaled_by_power(x.first, n.first), scaled_by_power(x.second, n.second)};
  }
  friend TERRACE_AVX512_INLINE Twice rough_reciprocal(const Twice& x) {
    return {rough_reciprocal(x.first), rough_reciprocal(x.second)};
  }
};

using TwoVectors = Twice<OneVector>;
using FourVectors = Twice<TwoVectors>;

template <typename V>
constexpr int64_t numbers_in = sizeof(V) / sizeof(float);

// Load and store as load_wide() and store_narrow() do, all numbers or the first `count`; the others are 0.
template <typename V, typename T>
TERRACE_AVX512_INLINE V load_all(const T* from) {
  if constexpr (std::is_same_v<V, OneVector>) {
    return load_wide(from);
  } else {
    using Half = decltype(V::first);
    return {load_all<Half>(from), load_all<Half>(from + numbers_in<Half>)};
  }
}

template <typename V, typename T>
TERRACE_AVX512_INLINE V load_first(const T* from, int64_t count) {
  if constexpr (std::is_same_v<V, OneVector>) {
    return load_wide(from, first_lanes_or_none(count));
  } else {
    using Half = decltype(V::first);
    return {load_first<Half>(from, count), load_first<Half>(from + numbers_in<Half>, count - numbers_in<Half>)};
  }
}

template <typename T>
TERRACE_AVX512_INLINE void store_all(T* to, __m512 value) {
  store_narrow(to, value);
}

template <typename T, typename V>
TERRACE_AVX512_INLINE void store_all(T* to, const Twice<V>& value) {
  if constexpr (std::is_same_v<V, OneVector> && !std::is_same_v<T, float>) {
    _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(value.second, value.first));
  } else {
    store_all(to, value.first);
    store_all(to + numbers_in<V>, value.second);
  }
}

template <typename T>
TERRACE_AVX512_INLINE void store_first(T* to, __m512 value, int64_t count) {
  store_narrow(to, value, first_lanes_or_none(count));
}

template <typename T, typename V>
TERRACE_AVX512_INLINE void store_first(T* to, const Twice<V>& value, int64_t count) {
  store_first(to, value.first, count);
  store_first(to + numbers_in<V>, value.second, count - numbers_in<V>);
}

// The values as they are after they were stored as T and loaded.
template <typename T, typename V>
TERRACE_AVX512_INLINE Twice<V> rounded(const Twice<V>& value) {
  return {rounded<T>(value.first), rounded<T>(value.second)};
}

// The first `count` numbers; zeros in place of the others.
TERRACE_AVX512_INLINE __m512 first_of(__m512 value, int64_t count) {
  return _mm512_maskz_mov_ps(first_lanes_or_none(count), value);
}

template <typename V>
TERRACE_AVX512_INLINE Twice<V> first_of(const Twice<V>& value, int64_t count) {
  return {first_of(value.first, count), first_of(value.second, count - numbers_in<V>)};
}

TERRACE_AVX512_INLINE __m512 sum_of_vectors(__m512 value) { return value; }

template <typename V>
TERRACE_AVX512_INLINE __m512 sum_of_vectors(const Twice<V>& value) {
  return sum_of_vectors(value.first) + sum_of_vectors(value.second);
}

}  // namespace terrace::ops::cpu
