// Vectors that are computed with in lockstep: the processor begins an operation on one of them while those on the
// others are under way. Functions of numbers (exponentials, GELU, ..) are templates over one vector or several.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "terrace/ops/cpu/vectors/vectors.h"

namespace terrace::ops::cpu::TERRACE_VECTOR_SET {

// Two of what V is: one vector, or several.
template <typename V>
struct Twice {
  V first, second;

  Twice() = default;
  TERRACE_VECTOR_INLINE Twice(const V& a, const V& b) : first(a), second(b) {}
  TERRACE_VECTOR_INLINE Twice(OneVector each) : first(each), second(each) {}  // NOLINT(google-explicit-constructor)

  friend TERRACE_VECTOR_INLINE Twice operator+(const Twice& a, const Twice& b) {
    return {a.first + b.first, a.second + b.second};
  }
  friend TERRACE_VECTOR_INLINE Twice operator-(const Twice& a, const Twice& b) {
    return {a.first - b.first, a.second - b.second};
  }
  friend TERRACE_VECTOR_INLINE Twice operator*(const Twice& a, const Twice& b) {
    return {a.first * b.first, a.second * b.second};
  }
  friend TERRACE_VECTOR_INLINE Twice times_plus(const Twice& a, const Twice& b, const Twice& c) {
    return {times_plus(a.first, b.first, c.first), times_plus(a.second, b.second, c.second)};
  }
  friend TERRACE_VECTOR_INLINE Twice times_minus(const Twice& a, const Twice& b, const Twice& c) {
    return {times_minus(a.first, b.first, c.first), times_minus(a.second, b.second, c.second)};
  }
  friend TERRACE_VECTOR_INLINE Twice minus_times(const Twice& c, const Twice& a, const Twice& b) {
    return {minus_times(c.first, a.first, b.first), minus_times(c.second, a.second, b.second)};
  }
  friend TERRACE_VECTOR_INLINE Twice smaller(const Twice& a, const Twice& b) {
    return {smaller(a.first, b.first), smaller(a.second, b.second)};
  }
  friend TERRACE_VECTOR_INLINE Twice larger(const Twice& a, const Twice& b) {
    return {larger(a.first, b.first), larger(a.second, b.second)};
  }
  friend TERRACE_VECTOR_INLINE Twice nearest_integer(const Twice& x) {
    return {nearest_integer(x.first), nearest_integer(x.second)};
  }
  friend TERRACE_VECTOR_INLINE Twice scaled_by_power(const Twice& x, const Twice& n) {
    return {scaled_by_power(x.first, n.first), scaled_by_power(x.second, n.second)};
  }
  friend TERRACE_VECTOR_INLINE Twice reciprocal(const Twice& x) { return {reciprocal(x.first), reciprocal(x.second)}; }
};

using TwoVectors = Twice<OneVector>;
using FourVectors = Twice<TwoVectors>;
// A row of a panel of columns.
using PanelRow = std::conditional_t<panel_vectors == 4, FourVectors, TwoVectors>;

TERRACE_VECTOR_INLINE TwoVectors joined(const OneVector (&x)[2]) { return {x[0], x[1]}; }
TERRACE_VECTOR_INLINE FourVectors joined(const OneVector (&x)[4]) { return {{x[0], x[1]}, {x[2], x[3]}}; }

TERRACE_VECTOR_INLINE void divide(const TwoVectors& x, OneVector (&into)[2]) { into[0] = x.first, into[1] = x.second; }
TERRACE_VECTOR_INLINE void divide(const FourVectors& x, OneVector (&into)[4]) {
  into[0] = x.first.first, into[1] = x.first.second, into[2] = x.second.first, into[3] = x.second.second;
}

template <typename V>
constexpr int64_t numbers_in = sizeof(V) / sizeof(float);

// Load and store as load_wide() and store_narrow() do, all numbers or the first `count`; the others are 0.
template <typename V, typename T>
TERRACE_VECTOR_INLINE V load_all(const T* from) {
  if constexpr (std::is_same_v<V, OneVector>) {
    return load_wide(from);
  } else {
    using Half = decltype(V::first);
    return {load_all<Half>(from), load_all<Half>(from + numbers_in<Half>)};
  }
}

template <typename V, typename T>
TERRACE_VECTOR_INLINE V load_first(const T* from, int64_t count) {
  if constexpr (std::is_same_v<V, OneVector>) {
    return load_wide(from, count);
  } else {
    using Half = decltype(V::first);
    return {load_first<Half>(from, count), load_first<Half>(from + numbers_in<Half>, count - numbers_in<Half>)};
  }
}

template <typename T>
TERRACE_VECTOR_INLINE void store_all(T* to, OneVector value) {
  store_narrow(to, value);
}

template <typename T, typename V>
TERRACE_VECTOR_INLINE void store_all(T* to, const Twice<V>& value) {
  if constexpr (std::is_same_v<V, OneVector>) {
    store_narrow_two(to, value.first, value.second);
  } else {
    store_all(to, value.first);
    store_all(to + numbers_in<V>, value.second);
  }
}

template <typename T>
TERRACE_VECTOR_INLINE void store_first(T* to, OneVector value, int64_t count) {
  store_narrow(to, value, count);
}

template <typename T, typename V>
TERRACE_VECTOR_INLINE void store_first(T* to, const Twice<V>& value, int64_t count) {
  store_first(to, value.first, count);
  store_first(to + numbers_in<V>, value.second, count - numbers_in<V>);
}

// The values as they are after they were stored as T and loaded.
template <typename T, typename V>
TERRACE_VECTOR_INLINE Twice<V> rounded(const Twice<V>& value) {
  return {rounded<T>(value.first), rounded<T>(value.second)};
}

// The first `count` numbers; zeros in place of the others.
TERRACE_VECTOR_INLINE OneVector first_of(OneVector value, int64_t count) { return where(first_lanes(count), value); }

template <typename V>
TERRACE_VECTOR_INLINE Twice<V> first_of(const Twice<V>& value, int64_t count) {
  return {first_of(value.first, count), first_of(value.second, count - numbers_in<V>)};
}

TERRACE_VECTOR_INLINE OneVector sum_of_vectors(OneVector value) { return value; }

template <typename V>
TERRACE_VECTOR_INLINE OneVector sum_of_vectors(const Twice<V>& value) {
  return sum_of_vectors(value.first) + sum_of_vectors(value.second);
}

}  // namespace terrace::ops::cpu::TERRACE_VECTOR_SET
