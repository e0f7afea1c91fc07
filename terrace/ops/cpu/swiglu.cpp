// Computes SwiGLU on pairs of gate and up.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include "terrace/ops/cpu/kernels.h"
#include "terrace/ops/cpu/lane_vectors.h"
#include "terrace/ops/element_type.h"

namespace terrace::ops::cpu {
namespace {

constexpr int64_t swiglu_grain = 8192;  // outputs that are worth a thread

// Sixteen pairs, in the same pieces as numbers.
template <typename T, int bytes>
struct Pairs {
  Lanes<Wide<T>, bytes> gate, up;
};

// The numbers of two vectors at even places, at odd places, or interleaved from the lower or the upper halves.
template <typename V, int... i>
TERRACE_INLINE inline V evens(V a, V b, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(a, b, (2 * i)...);
}

template <typename V, int... i>
TERRACE_INLINE inline V odds(V a, V b, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(a, b, (2 * i + 1)...);
}

template <int begin, typename V, int... i>
TERRACE_INLINE inline V in_turns(V a, V b, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(a, b, (begin + i / 2 + i % 2 * static_cast<int>(sizeof...(i)))...);
}

template <int bytes, typename T>
TERRACE_INLINE inline Pairs<T, bytes> load_pairs(const T* x, AllLanes = {}) {
  using Half = Lanes<Wide<T>, bytes>;
  constexpr std::make_integer_sequence<int, Half::size> places;
  Pairs<T, bytes> result;
  TERRACE_PIECE_LOOP
  for (int p = 0; p < Half::pieces; ++p) {
    const T* place = x + 2 * p * Half::size;
    if constexpr (std::is_same_v<T, c10::BFloat16>) {
      // A pair is a word, whose low half is the gate.
      Vector<uint32_t, Half::size> words;
      std::memcpy(&words, place, bytes);
      result.gate.piece[p] = reinterpreted<Vector<float, Half::size>>(words << 16);
      result.up.piece[p] = reinterpreted<Vector<float, Half::size>>(words & 0xFFFF0000);
    } else {
      const auto first = load_piece<Half::size>(place), second = load_piece<Half::size>(place + Half::size);
      result.gate.piece[p] = evens(first, second, places);
      result.up.piece[p] = odds(first, second, places);
    }
  }
  return result;
}

template <int bytes, typename T>
TERRACE_INLINE inline Pairs<T, bytes> load_pairs(const T* x, int64_t count) {
  T elements[2 * num_lanes] = {};
  std::copy_n(x, 2 * count, elements);
  return load_pairs<bytes>(elements);
}

template <typename T, int bytes>
TERRACE_INLINE inline void store_pairs(T* to, const Pairs<T, bytes>& x, AllLanes = {}) {
  using Half = Lanes<Wide<T>, bytes>;
  constexpr std::make_integer_sequence<int, Half::size> places;
  TERRACE_PIECE_LOOP
  for (int p = 0; p < Half::pieces; ++p) {
    T* place = to + 2 * p * Half::size;
    const auto gate = x.gate.piece[p], up = x.up.piece[p];
    if constexpr (std::is_same_v<T, c10::BFloat16>) {
      const Vector<uint32_t, Half::size> words = rounded_to_bf16(gate) | rounded_to_bf16(up) << 16;
      std::memcpy(static_cast<void*>(place), &words, bytes);
    } else {
      store_piece<Half::size>(place, in_turns<0>(gate, up, places));
      store_piece<Half::size>(place + Half::size, in_turns<Half::size / 2>(gate, up, places));
    }
  }
}

template <typename T, int bytes>
TERRACE_INLINE inline void store_pairs(T* to, const Pairs<T, bytes>& x, int64_t count) {
  T elements[2 * num_lanes];
  store_pairs(elements, x);
  std::copy_n(elements, 2 * count, to);
}

template <int vectors, typename T, int bytes>
struct Gates {
  Pairs<T, bytes> pairs[vectors];
  Lanes<Wide<T>, bytes> sigmoids[vectors];  // of the gates
};

template <int vectors, int bytes, typename T, typename Count>
TERRACE_INLINE inline Gates<vectors, T, bytes> load_gates(const T* x, Count count) {
  Gates<vectors, T, bytes> result;
  for (int v = 0; v < vectors; ++v) {
    result.pairs[v] = load_pairs<bytes>(x + 2 * v * num_lanes, count);
    result.sigmoids[v] = -result.pairs[v].gate;
  }
  exponentials(result.sigmoids);
  for (auto& share : result.sigmoids) share = Wide<T>{1} / (Wide<T>{1} + share);
  return result;
}

// Half as many vectors as the registers hold: they leave room for the pairs.
template <int bytes>
constexpr int side_by_side = bytes / 16;

template <int bytes, typename T>
TERRACE_INLINE inline void swiglu_range(const T* x, T* y, int64_t n) {
  for_groups<side_by_side<bytes>>(n, [&]<int vectors>(int64_t i, Vectors<vectors>, auto count) TERRACE_INLINE {
    const auto gates = load_gates<vectors, bytes>(x + 2 * i, count);
    for (int v = 0; v < vectors; ++v) {
      const auto& [gate, up] = gates.pairs[v];
      store_lanes(y + i + v * num_lanes, gate * gates.sigmoids[v] * up, count);
    }
  });
}

template <int bytes, typename T>
TERRACE_INLINE inline void swiglu_backward_range(const T* dy, const T* x, T* dx, int64_t n) {
  constexpr Wide<T> one = 1;
  for_groups<side_by_side<bytes>>(n, [&]<int vectors>(int64_t i, Vectors<vectors>, auto count) TERRACE_INLINE {
    const auto gates = load_gates<vectors, bytes>(x + 2 * i, count);
    for (int v = 0; v < vectors; ++v) {
      const auto& [gate, up] = gates.pairs[v];
      const auto slope = load_lanes<bytes>(dy + i + v * num_lanes, count), share = gates.sigmoids[v];
      const Pairs<T, bytes> slopes = {slope * up * share * (one + gate * (one - share)), slope * gate * share};
      store_pairs(dx + 2 * (i + v * num_lanes), slopes, count);
    }
  });
}

}  // namespace

void swiglu(const at::Tensor& x, const at::Tensor& y) {
  for_type(x.scalar_type(), [&]<typename T>(T) {
    const T* from = x.const_data_ptr<T>();
    T* to = y.mutable_data_ptr<T>();
    at::parallel_for(0, y.numel(), swiglu_grain, [&](int64_t begin, int64_t end) {
      with_widest_registers([&]<int bytes>(RegisterBytes<bytes>)
                                TERRACE_INLINE { swiglu_range<bytes>(from + 2 * begin, to + begin, end - begin); });
    });
  });
}

void swiglu_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& dx) {
  for_type(x.scalar_type(), [&]<typename T>(T) {
    const T *slope = dy.const_data_ptr<T>(), *from = x.const_data_ptr<T>();
    T* to = dx.mutable_data_ptr<T>();
    at::parallel_for(0, dy.numel(), swiglu_grain, [&](int64_t begin, int64_t end) {
      with_widest_registers([&]<int bytes>(RegisterBytes<bytes>) TERRACE_INLINE {
        swiglu_backward_range<bytes>(slope + begin, from + 2 * begin, to + 2 * begin, end - begin);
      });
    });
  });
}

}  // namespace terrace::ops::cpu
