// Computes the cross-entropy of rows of logits, which the gradient overwrites.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "terrace/ops/cpu/kernels.h"
#include "terrace/ops/cpu/lanes.h"
#include "terrace/ops/element_type.h"

namespace terrace::ops::cpu {
namespace {

template <typename T>
TERRACE_VECTOR_CLONES Wide<T> largest(const T* x, int64_t n) {
  using A = Wide<T>;
  A lanes[num_lanes];
  for (A& lane : lanes) lane = -std::numeric_limits<A>::infinity();
  int64_t i = 0;
  for (; i + num_lanes <= n; i += num_lanes) {
    for (int64_t lane = 0; lane < num_lanes; ++lane) {
      const A value = widen(x[i + lane]);
      // The comparison keeps a NaN.
      lanes[lane] = value <= lanes[lane] ? lanes[lane] : value;
    }
  }
  for (; i < n; ++i) lanes[0] = widen(x[i]) <= lanes[0] ? lanes[0] : widen(x[i]);
  A result = lanes[0];
  for (A lane : lanes) result = lane <= result ? result : lane;
  return result;
}

// The sum of exp(x - top): in the computing type within short blocks, in double over the blocks. Also writes the
// exponentials if `keeps`.
template <bool keeps, typename T>
TERRACE_VECTOR_CLONES double exponential_sum(const T* __restrict x, int64_t n, Wide<T> top, Wide<T>* __restrict kept) {
  constexpr int64_t block = 512;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += block) {
    total += lane_sum<Wide<T>>(std::min(block, n - begin), [&](int64_t i) TERRACE_INLINE {
      const Wide<T> value = exponential(widen(x[begin + i]) - top);
      if constexpr (keeps) kept[begin + i] = value;
      return value;
    });
  }
  return total;
}

template <typename T>
TERRACE_VECTOR_CLONES void scale(const Wide<T>* __restrict from, int64_t n, Wide<T> factor, T* __restrict to) {
  for (int64_t i = 0; i < n; ++i) to[i] = narrow<T>(from[i] * factor);
}

template <typename T>
double cross_entropy_row(T* logits, int64_t target, int64_t vocabulary, int64_t columns, double gradient_scale,
                         Wide<T>* exponentials) {
  using A = Wide<T>;
  if (target < 0) {
    if (gradient_scale != 0.0) std::fill(logits, logits + columns, T(0));
    return 0.0;
  }
  const A top = largest(logits, vocabulary);
  const double sum = gradient_scale != 0.0 ? exponential_sum<true>(logits, vocabulary, top, exponentials)
                                           : exponential_sum<false>(logits, vocabulary, top, exponentials);
  const A logit = widen(logits[target]);
  if (gradient_scale != 0.0) {
    scale(exponentials, vocabulary, static_cast<A>(gradient_scale / sum), logits);
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
      std::vector<Wide<T>> exponentials(static_cast<size_t>(vocabulary));  // of a row
      for (int64_t row = begin; row < end; ++row) {
        loss[row] = cross_entropy_row(data + row * columns, target[row], vocabulary, columns, gradient_scale,
                                      exponentials.data());
      }
    });
  });
}

}  // namespace terrace::ops::cpu
