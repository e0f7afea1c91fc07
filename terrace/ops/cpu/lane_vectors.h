// Vectors of sixteen numbers, for loops that the compiler does not vectorize well by itself. Such a loop is compiled
// for registers of 64, 32 and 16 bytes, in which a vector takes one or more pieces, and the widest that the processor
// has are used. An operation of a vector is an operation of each lane, so all give the same bits.
#pragma once

#include <cstring>
#include <utility>

#include "terrace/ops/cpu/lanes.h"
#include "terrace/ops/cpu/registers.h"

// Placed before a loop over the pieces of a vector, which must be unrolled to stay in registers.
#define TERRACE_PIECE_LOOP _Pragma("GCC unroll 16")

namespace terrace::ops::cpu {

template <int bytes>
using RegisterBytes = std::integral_constant<int, bytes>;

// Call body(RegisterBytes<bytes>{}), which must be inlined like all that it calls.
template <typename Body>
auto with_16_bytes(const Body& body) {
  return body(RegisterBytes<16>{});
}

#if defined(__x86_64__) && defined(__GNUC__)
template <typename Body>
__attribute__((target("avx2"))) auto with_32_bytes(const Body& body) {
  return body(RegisterBytes<32>{});
}

template <typename Body>
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) auto with_64_bytes(const Body& body) {
  return body(RegisterBytes<64>{});
}

template <typename Body>
auto with_widest_registers(const Body& body) {
  if (has_registers_of_64_bytes()) return with_64_bytes(body);
  if (has_registers_of_32_bytes()) return with_32_bytes(body);
  return with_16_bytes(body);
}
#else
template <typename Body>
auto with_widest_registers(const Body& body) {
  return with_16_bytes(body);
}
#endif

template <typename A, int size>
struct VectorOf {
  typedef A Type __attribute__((vector_size(size * sizeof(A))));
};
// A vector of `size` numbers, whose operators are the compiler's.
template <typename A, int size>
using Vector = typename VectorOf<A, size>::Type;

// The bits of a vector as another one. std::bit_cast is not used, since its calls would pass vectors by the rules of
// processors without wide registers where it is not inlined.
template <typename To, typename From>
TERRACE_INLINE inline To reinterpreted(From from) {
  return __builtin_bit_cast(To, from);
}

// Sixteen numbers of type A. They are to be used in a loop for registers of `bytes` bytes.
template <typename A, int bytes>
struct Lanes {
  static constexpr int size = bytes / sizeof(A);  // of a piece
  static constexpr int pieces = num_lanes / size;
  Vector<A, size> piece[pieces] = {};

  Lanes() = default;
  TERRACE_INLINE explicit Lanes(A value) {
    TERRACE_PIECE_LOOP
    for (auto& p : piece) p = value - Vector<A, size>{};
  }
};

// The vector of op(pieces of x..), piece by piece.
template <typename A, int bytes, typename Op, typename... More>
TERRACE_INLINE inline Lanes<A, bytes> piecewise(const Op& op, const Lanes<A, bytes>& x, const More&... more) {
  Lanes<A, bytes> result;
  TERRACE_PIECE_LOOP
  for (int p = 0; p < Lanes<A, bytes>::pieces; ++p) result.piece[p] = op(x.piece[p], more.piece[p]...);
  return result;
}

#define TERRACE_LANES_OPERATOR(symbol)                                                                        \
  template <typename A, int bytes>                                                                            \
  TERRACE_INLINE inline Lanes<A, bytes> operator symbol(const Lanes<A, bytes>& a, const Lanes<A, bytes>& b) { \
    return piecewise([](auto x, auto y) TERRACE_INLINE { return x symbol y; }, a, b);                         \
  }                                                                                                           \
  template <typename A, int bytes>                                                                            \
  TERRACE_INLINE inline Lanes<A, bytes> operator symbol(const Lanes<A, bytes>& a, A b) {                      \
    return piecewise([b](auto x) TERRACE_INLINE { return x symbol b; }, a);                                   \
  }                                                                                                           \
  template <typename A, int bytes>                                                                            \
  TERRACE_INLINE inline Lanes<A, bytes> operator symbol(A a, const Lanes<A, bytes>& b) {                      \
    return piecewise([a](auto y) TERRACE_INLINE { return a symbol y; }, b);                                   \
  }
TERRACE_LANES_OPERATOR(+)
TERRACE_LANES_OPERATOR(-)
TERRACE_LANES_OPERATOR(*)
TERRACE_LANES_OPERATOR(/)
#undef TERRACE_LANES_OPERATOR

template <typename A, int bytes>
TERRACE_INLINE inline Lanes<A, bytes> operator-(const Lanes<A, bytes>& a) {
  return piecewise([](auto x) TERRACE_INLINE { return -x; }, a);
}

// The larger of two vectors or numbers, and the smaller; b if one of them is not a number.
template <typename V>
TERRACE_INLINE inline V larger(V a, V b) {
  return a > b ? a : b;
}

template <typename V>
TERRACE_INLINE inline V smaller(V a, V b) {
  return a < b ? a : b;
}

template <typename A, int bytes>
TERRACE_INLINE inline Lanes<A, bytes> larger(const Lanes<A, bytes>& a, const Lanes<A, bytes>& b) {
  return piecewise([](auto x, auto y) TERRACE_INLINE { return larger(x, y); }, a, b);
}

// The lanes that count: all of them, or the first ones as in the last vector of a loop.
struct AllLanes {};

// A number of vectors that are computed side by side.
template <int number>
using Vectors = std::integral_constant<int, number>;

// Calls body(i, number of vectors, count) for i = 0, 16 vectors, 32 vectors, ..; then for one vector at a time with
// AllLanes, and at last with the number of elements that are left.
template <int vectors, typename Body>
TERRACE_INLINE inline void for_groups(int64_t n, const Body& body) {
  int64_t i = 0;
  for (; i + vectors * num_lanes <= n; i += vectors * num_lanes) body(i, Vectors<vectors>{}, AllLanes{});
  if constexpr (vectors > 1) {
    for (; i + num_lanes <= n; i += num_lanes) body(i, Vectors<1>{}, AllLanes{});
  }
  if (i < n) body(i, Vectors<1>{}, n - i);
}

// Calls body(i, count) for i = 0, 16, ..
template <typename Body>
TERRACE_INLINE inline void for_vectors(int64_t n, const Body& body) {
  for_groups<1>(n, [&](int64_t i, Vectors<1>, auto count) TERRACE_INLINE { body(i, count); });
}

// A piece of fp32 as bf16, rounded as narrow() does, in the low half of each word.
template <typename V>
TERRACE_INLINE inline auto rounded_to_bf16(V value) {
  using Words = Vector<uint32_t, sizeof(V) / sizeof(float)>;
  const auto bits = reinterpreted<Words>(value);
  return value == value ? (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 : Words{} + 0x7FC0;
}

// A piece of fp16, in the low half of each word, as fp32 and back as c10::Half does, whose conversions of one number do
// not vectorize.
template <int size>
TERRACE_INLINE inline Vector<float, size> widened_from_fp16(Vector<int32_t, size> half) {
  using Words = Vector<int32_t, size>;
  using V = Vector<float, size>;
  const Words magnitude = half & 0x7FFF;
  // The exponent moves by 224 and back by 112, so that infinity and NaN keep theirs.
  const V normal = reinterpreted<V>((magnitude << 13) + 0x70000000) * 0x1p-112f;
  const V subnormal = reinterpreted<V>(magnitude | 0x3F000000) - 0.5f;
  const Words bits = magnitude < 0x400 ? reinterpreted<Words>(subnormal) : reinterpreted<Words>(normal);
  return reinterpreted<V>(bits | (half & 0x8000) << 16);
}

template <int size>
TERRACE_INLINE inline Vector<int32_t, size> rounded_to_fp16(Vector<float, size> value) {
  using Words = Vector<int32_t, size>;
  using V = Vector<float, size>;
  const Words bits = reinterpreted<Words>(value), magnitude = bits & 0x7FFFFFFF, exponent = bits & 0x7F800000;
  // Too large a number becomes infinite; the addition rounds to the bits that fp16 has at this exponent.
  const V limited = reinterpreted<V>(magnitude) * 0x1p112f * 0x1p-110f;
  const Words least = Words{} + 0x38800000;
  const V sum = reinterpreted<V>((exponent > least ? exponent : least) + 0x07800000) + limited;
  const Words rounded = ((reinterpreted<Words>(sum) >> 13) & 0x7C00) + (reinterpreted<Words>(sum) & 0x0FFF);
  return (magnitude > 0x7F800000 ? Words{} + 0x7E00 : rounded) | ((bits >> 16) & 0x8000);
}

template <int size, typename T>
TERRACE_INLINE inline Vector<Wide<T>, size> load_piece(const T* from) {
  Vector<Wide<T>, size> result;
  if constexpr (std::is_same_v<T, Wide<T>>) {
    std::memcpy(&result, from, sizeof(result));
  } else if constexpr (std::is_same_v<T, c10::BFloat16>) {
    Vector<uint16_t, size> bits;
    std::memcpy(&bits, from, sizeof(bits));
    result = reinterpreted<Vector<float, size>>(__builtin_convertvector(bits, Vector<uint32_t, size>) << 16);
  } else {
    Vector<uint16_t, size> bits;
    std::memcpy(&bits, from, sizeof(bits));
    result = widened_from_fp16<size>(__builtin_convertvector(bits, Vector<int32_t, size>));
  }
  return result;
}

template <int size, typename T>
TERRACE_INLINE inline void store_piece(T* to, Vector<Wide<T>, size> value) {
  if constexpr (std::is_same_v<T, Wide<T>>) {
    std::memcpy(to, &value, sizeof(value));
  } else if constexpr (std::is_same_v<T, c10::BFloat16>) {
    const auto bits = __builtin_convertvector(rounded_to_bf16(value), Vector<uint16_t, size>);
    std::memcpy(static_cast<void*>(to), &bits, sizeof(bits));
  } else {
    const auto bits = __builtin_convertvector(rounded_to_fp16<size>(value), Vector<uint16_t, size>);
    std::memcpy(static_cast<void*>(to), &bits, sizeof(bits));
  }
}

template <int bytes, typename T>
TERRACE_INLINE inline Lanes<Wide<T>, bytes> load_lanes(const T* from, AllLanes = {}) {
  using Result = Lanes<Wide<T>, bytes>;
  Result result;
  TERRACE_PIECE_LOOP
  for (int p = 0; p < Result::pieces; ++p) result.piece[p] = load_piece<Result::size>(from + p * Result::size);
  return result;
}

template <typename T, int bytes>
TERRACE_INLINE inline void store_lanes(T* to, const Lanes<Wide<T>, bytes>& value, AllLanes = {}) {
  using Value = Lanes<Wide<T>, bytes>;
  TERRACE_PIECE_LOOP
  for (int p = 0; p < Value::pieces; ++p) store_piece<Value::size>(to + p * Value::size, value.piece[p]);
}

// The type of a lane's number, as wide as an element: so the compiler compares all of them at once and makes a mask.
template <typename T>
using LaneIndex = std::conditional_t<sizeof(T) == 2, int16_t, std::conditional_t<sizeof(T) == 8, int64_t, int32_t>>;

// The part of a number that a loop over elements can read under a mask: the bits of a number that has 16 of them, other
// numbers as they are.
template <typename T>
TERRACE_INLINE inline auto& plain(T& element) {
  if constexpr (sizeof(T) == 2) {
    return element.x;
  } else {
    return element;
  }
}

// The other lanes are 0.
template <int bytes, typename T>
TERRACE_INLINE inline Lanes<Wide<T>, bytes> load_lanes(const T* from, int64_t count) {
  using Index = LaneIndex<T>;
  std::remove_cvref_t<decltype(plain(*from))> elements[num_lanes];
  TERRACE_LANE_LOOP
  for (Index lane = 0; lane < num_lanes; ++lane) {
    elements[lane] = lane < static_cast<Index>(count) ? plain(from[lane]) : 0;
  }
  T all[num_lanes];
  std::memcpy(static_cast<void*>(all), elements, sizeof(all));
  return load_lanes<bytes>(all);
}

template <typename T, int bytes>
TERRACE_INLINE inline void store_lanes(T* to, const Lanes<Wide<T>, bytes>& value, int64_t count) {
  using Index = LaneIndex<T>;
  T all[num_lanes];
  store_lanes(all, value);
  TERRACE_LANE_LOOP
  for (Index lane = 0; lane < num_lanes; ++lane) {
    if (lane < static_cast<Index>(count)) plain(to[lane]) = plain(all[lane]);
  }
}

// The vector with 0 in the lanes that do not count.
template <typename A, int bytes>
TERRACE_INLINE inline Lanes<A, bytes> counted(const Lanes<A, bytes>& value, AllLanes) {
  return value;
}

template <typename A, int bytes>
TERRACE_INLINE inline Lanes<A, bytes> counted(Lanes<A, bytes> value, int64_t count) {
  A all[num_lanes];
  store_lanes(all, value);
  return load_lanes<bytes>(all, count);
}

template <typename A, int bytes>
TERRACE_INLINE inline A sum_of_lanes(const Lanes<A, bytes>& sums) {
  A lanes[num_lanes];
  store_lanes(lanes, sums);
  return sum_of_lanes(lanes);
}

// The sum of term(0) .. term(n - 1), sixteen terms at a time; term(i, count) returns a vector.
template <typename A, int bytes, typename Term>
TERRACE_INLINE inline A vector_sum(int64_t n, const Term& term) {
  Lanes<A, bytes> sums;
  for_vectors(n, [&](int64_t i, auto count) TERRACE_INLINE { sums = sums + counted(term(i, count), count); });
  return sum_of_lanes(sums);
}

// Replaces each x by e^x, to about one ulp for x in [-87, 88], clamped outside: x = n ln 2 + r, a Taylor polynomial in
// r, and 2^n by its bits. The C library's exponential does not vectorize. Several vectors are computed step by step
// side by side: one alone would keep the processor waiting for each step's result.
template <int vectors, int bytes>
TERRACE_INLINE inline void exponentials(Lanes<float, bytes> (&x)[vectors]) {
  constexpr float shift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, which is then in the low bits
  constexpr int pieces = Lanes<float, bytes>::pieces, size = Lanes<float, bytes>::size;
  using V = Vector<float, size>;
  V shifted[vectors * pieces], sum[vectors * pieces];
  const auto each = [&](const auto& step) TERRACE_INLINE {
    TERRACE_PIECE_LOOP
    for (int p = 0; p < vectors * pieces; ++p) step(x[p / pieces].piece[p % pieces], shifted[p], sum[p]);
  };
  each([](V& r, V&, V&) TERRACE_INLINE { r = smaller(88.0f + V{}, larger(-87.0f + V{}, r)); });
  each([](V& r, V& n, V&) TERRACE_INLINE { n = r * 1.44269504088896341f + shift; });
  // ln 2 as a sum of two numbers; the first has so few bits that its product with n is exact.
  each([](V& r, V& n, V&)
           TERRACE_INLINE { r = (r - (n - shift) * 0.693359375f) - (n - shift) * -2.12194440054690583e-4f; });
  each([](V& r, V&, V& s) TERRACE_INLINE { s = 1.0f / 5040 * r + 1.0f / 720; });
  each([](V& r, V&, V& s) TERRACE_INLINE { s = s * r + 1.0f / 120; });
  each([](V& r, V&, V& s) TERRACE_INLINE { s = s * r + 1.0f / 24; });
  each([](V& r, V&, V& s) TERRACE_INLINE { s = s * r + 1.0f / 6; });
  each([](V& r, V&, V& s) TERRACE_INLINE { s = s * r + 0.5f; });
  each([](V& r, V&, V& s) TERRACE_INLINE { s = (s * r) * r + r + 1.0f; });
  each([](V& r, V& n, V& s) TERRACE_INLINE {
    const auto exponent = reinterpreted<Vector<uint32_t, size>>(n) - (std::bit_cast<uint32_t>(float{shift}) - 127);
    r = s * reinterpreted<V>(exponent << 23);
  });
}

template <int vectors, int bytes>
TERRACE_INLINE inline void exponentials(Lanes<double, bytes> (&x)[vectors]) {
  for (auto& lanes : x) {
    for (auto& piece : lanes.piece) {
      for (int lane = 0; lane < Lanes<double, bytes>::size; ++lane) piece[lane] = __builtin_exp(piece[lane]);
    }
  }
}

}  // namespace terrace::ops::cpu
