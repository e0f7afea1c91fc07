// Computes the cross-entropy of rows of logits, which the gradient overwrites; one thread block per row.

#include <limits>

#include "terrace/ops/cuda/gpu_kernels.h"
#include "terrace/ops/cuda/launch.cuh"

namespace terrace::ops::cuda {
namespace {

constexpr int row_threads = 1024;

// The maximum may lose a NaN, but the sum of exponentials then has it.
template <typename T>
__device__ Wide<T> largest(const T* x, int64_t n) {
  using A = Wide<T>;
  A top = -std::numeric_limits<A>::infinity();
  for (int64_t i = threadIdx.x; i < n; i += row_threads) top = max(top, widen(x[i]));
  return block_reduce<row_threads>(top, [](A a, A b) { return max(a, b); });
}

// The sum of exp(x - top): in the computing type for a few terms, in double over these sums.
template <typename T>
__device__ double exponential_sum(const T* x, int64_t n, Wide<T> top) {
  constexpr int64_t terms = 32;
  double total = 0;
  for (int64_t begin = threadIdx.x; begin < n; begin += terms * row_threads) {
    const int64_t end = min(n, begin + terms * row_threads);
    Wide<T> part = 0;
    for (int64_t i = begin; i < end; i += row_threads) part += exp(widen(x[i]) - top);
    total += part;
  }
  return block_sum<row_threads>(total);
}

template <typename T>
__global__ void __launch_bounds__(row_threads)
    cross_entropy_row(T* logits, const int64_t* targets, double* losses, int64_t vocabulary, int64_t columns,
                      double gradient_scale) {
  using A = Wide<T>;
  T* x = logits + blockIdx.x * columns;
  const int64_t target = targets[blockIdx.x];
  TERRACE_GPU_CHECK(target < vocabulary);
  if (target < 0) {
    if (threadIdx.x == 0) losses[blockIdx.x] = 0;
    if (gradient_scale == 0) return;
    for (int64_t i = threadIdx.x; i < columns; i += row_threads) x[i] = narrow<T>(A{0});
    return;
  }
  const A top = largest(x, vocabulary), logit = widen(x[target]);
  // The barriers inside the sum order the reads above before the writes below.
  const double sum = exponential_sum(x, vocabulary, top);
  const double distance = static_cast<double>(top) - static_cast<double>(logit);
  if (threadIdx.x == 0) losses[blockIdx.x] = log(sum) + distance;
  if (gradient_scale == 0) return;
  const A factor = static_cast<A>(gradient_scale / sum);
  for (int64_t i = threadIdx.x; i < columns; i += row_threads) {
    if (i == target) {
      // The target is computed separately: rounding the probability before subtracting 1 would lose digits of the
      // difference.
      x[i] = narrow<T>(static_cast<A>((exp(-distance) / sum - 1.0) * gradient_scale));
    } else {
      x[i] = narrow<T>(i < vocabulary ? exp(widen(x[i]) - top) * factor : A{0});
    }
  }
}

}  // namespace

void launch_cross_entropy(const CrossEntropyRows& rows, double gradient_scale, void* stream) {
  for_gpu_type(rows.logits.type, [&]<typename T>(T) {
    launch(cross_entropy_row<T>, static_cast<unsigned>(rows.rows), row_threads, stream, elements<T>(rows.logits),
           rows.targets, rows.losses, rows.vocabulary, rows.columns, gradient_scale);
  });
}

}  // namespace terrace::ops::cuda
