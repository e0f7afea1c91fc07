// Computes the cross-entropy of rows of logits, which the gradient overwrites.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "terrace/ops/cpu/kernels.h"
#include "terrace/ops/cpu/lane_vectors.h"
#include "terrace/ops/element_type.h"

namespace terrace::ops::cpu {
namespace {

template <int bytes, typename T>
TERRACE_INLINE inline Wide<T> largest(const T* x, int64_t n) {
  using A = Wide<T>;
  constexpr int64_t vectors = 4;  // compared side by side
  const Lanes<A, bytes> none(-std::numeric_limits<A>::infinity());
  Lanes<A, bytes> tops[vectors] = {none, none, none, none};
  int64_t i = 0;
  for (; i + vectors * num_lanes <= n; i += vectors * num_lanes) {
    for (int64_t v = 0; v < vectors; ++v) tops[v] = larger(tops[v], load_lanes<bytes>(x + i + v * num_lanes));
  }
  A lanes[num_lanes];
  store_lanes(lanes, larger(larger(tops[0], tops[1]), larger(tops[2], tops[3])));
  A result = lanes[0];
  for (A lane : lanes) result = larger(result, lane);
  for (; i < n; ++i) result = larger(result, widen(x[i]));
  return result;
}

// The sum of exp(x - top): in the computing type within short blocks, in double over the blocks. Also writes the
// exponentials if `keeps`; they may overwrite x.
template <int bytes, bool keeps, typename T>
TERRACE_INLINE inline double exponential_sum(const T* x, int64_t n, Wide<T> top, Wide<T>* kept) {
  using A = Wide<T>;
  constexpr int64_t block = 512;
  constexpr int side_by_side = bytes / 8;  // as many vectors as the registers hold
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += block) {
    Lanes<A, bytes> sums;
    for_groups<side_by_side>(std::min(block, n - begin),
                             [&]<int vectors>(int64_t i, Vectors<vectors>, auto count) TERRACE_INLINE {
                               Lanes<A, bytes> values[vectors];
                               for (int v = 0; v < vectors; ++v) {
                                 values[v] = load_lanes<bytes>(x + begin + i + v * num_lanes, count) - top;
                               }
                               exponentials(values);
                               for (int v = 0; v < vectors; ++v) {
                                 if constexpr (keeps) store_lanes(kept + begin + i + v * num_lanes, values[v], count);
                                 sums = sums + counted(values[v], count);
                               }
                             });
    total += sum_of_lanes(sums);
  }
  return total;
}

template <int bytes, typename T>
TERRACE_INLINE inline void scale(const Wide<T>* from, int64_t n, Wide<T> factor, T* to) {
  for_vectors(n, [&](int64_t i, auto count)
                     TERRACE_INLINE { store_lanes(to + i, load_lanes<bytes>(from + i, count) * factor, count); });
}

template <int bytes, typename T>
TERRACE_INLINE inline double cross_entropy_row(T* logits, int64_t target, int64_t vocabulary, int64_t columns,
                                               double gradient_scale, Wide<T>* exponentials) {
  using A = Wide<T>;
  if (target < 0) {
    if (gradient_scale != 0.0) std::fill(logits, logits + columns, T(0));
    return 0.0;
  }
  const A top = largest<bytes>(logits, vocabulary);
  const A logit = widen(logits[target]);
  const double sum = gradient_scale != 0.0 ? exponential_sum<bytes, true>(logits, vocabulary, top, exponentials)
                                           : exponential_sum<bytes, false>(logits, vocabulary, top, exponentials);
  if (gradient_scale != 0.0) {
    scale<bytes>(exponentials, vocabulary, static_cast<A>(gradient_scale / sum), logits);
    // The target is computed separately: rounding the probability before subtracting 1 would lose digits of the
    // difference.
    const double probability = std::exp(static_cast<double>(logit) - static_cast<double>(top)) / sum;
    logits[target] = narrow<T>(static_cast<A>((probability - 1.0) * gradient_scale));
    std::fill(logits + vocabulary, logits + columns, T(0));
  }
  return std::log(sum) + (static_cast<double>(top) - static_cast<double>(logit));
}

}  // namespace

void cross_entropy(const at::Tensor& logits, const at::Tensor& targets, int64_t vocabulary, double gradient_scale,
                   const at::Tensor& losses) {
  const int64_t rows = logits.size(0), columns = logits.size(1);
  TERRACE_CHECK(logits.is_contiguous() && targets.is_contiguous() && vocabulary <= columns, "{} columns of {}",
                vocabulary, columns);
  const int64_t* target = targets.const_data_ptr<int64_t>();
  double* loss = losses.mutable_data_ptr<double>();
  for_type(logits.scalar_type(), [&]<typename T>(T) {
    T* data = logits.mutable_data_ptr<T>();
    at::parallel_for(0, rows, std::max<int64_t>(1, 8192 / columns), [&](int64_t begin, int64_t end) {
      constexpr bool in_place = std::is_same_v<T, Wide<T>>;
      std::vector<Wide<T>> of_a_row(in_place ? 0 : static_cast<size_t>(vocabulary));
      for (int64_t row = begin; row < end; ++row) {
        T* logits_of_row = data + row * columns;
        Wide<T>* exponentials = of_a_row.data();
        if constexpr (in_place) exponentials = logits_of_row;
        loss[row] = with_widest_registers([&]<int bytes>(RegisterBytes<bytes>) TERRACE_INLINE {
          return cross_entropy_row<bytes>(logits_of_row, target[row], vocabulary, columns, gradient_scale,
                                          exponentials);
        });
      }
    });
  });
}

}  // namespace terrace::ops::cpu
