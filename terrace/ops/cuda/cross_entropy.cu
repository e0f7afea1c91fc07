// Computes the cross-entropy of rows of logits, which the gradient overwrites; one thread block per row.

#include <limits>

#include "terrace/ops/cuda/gpu_kernels.h"
#include "terrace/ops/cuda/launch.cuh"

namespace terrace::ops::cuda {
namespace {

constexpr int row_threads = 512;

// The largest of some numbers, and the sum of exp(x - top) over them: in the computing type over a pack, in double over
// these sums. The largest may lose a NaN, which the sum then has.
template <typename A>
struct Exponentials {
  A top = -std::numeric_limits<A>::infinity();
  double sum = 0;

  template <int size>
  __device__ void add(const A (&x)[size]) {
    A largest = x[0], part = 0;
#pragma unroll
    for (int k = 1; k < size; ++k) largest = max(largest, x[k]);
    if (largest > top) {
      sum *= exp(top - largest);
      top = largest;
    }
#pragma unroll
    for (int k = 0; k < size; ++k) part += exp(x[k] - top);
    sum += part;
  }
};

// The sum of exponentials of a row, in every thread of its block.
template <int size, typename T>
__device__ Exponentials<Wide<T>> exponentials_of_row(const T* x, int64_t n) {
  using A = Wide<T>;
  Exponentials<A> own;
  const int64_t whole = n / size * size;
  for (int64_t begin = threadIdx.x * size; begin < whole; begin += row_threads * size) {
    const GpuPack<T, size> pack = load_pack<size>(x + begin);
    A wide[size];
#pragma unroll
    for (int k = 0; k < size; ++k) wide[k] = widen(pack.elements[k]);
    own.add(wide);
  }
  if (whole + threadIdx.x < n) own.add({widen(x[whole + threadIdx.x])});
  const A top = block_reduce<row_threads>(own.top, [](A a, A b) { return max(a, b); });
  const double scale = exp(static_cast<double>(own.top) - static_cast<double>(top));
  return {top, block_sum<row_threads>(own.sum * scale)};
}

// Rows are whole packs of `size` elements.
template <typename T, int size>
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
  const A logit = widen(x[target]);
  // The barriers of the sums order the reads above before the writes below.
  const auto [top, sum] = exponentials_of_row<size>(x, vocabulary);
  const double distance = static_cast<double>(top) - static_cast<double>(logit);
  if (threadIdx.x == 0) losses[blockIdx.x] = log(sum) + distance;
  if (gradient_scale == 0) return;
  const A factor = static_cast<A>(gradient_scale / sum);
  // The target is computed separately: rounding the probability before subtracting 1 would lose digits of the
  // difference.
  const T at_target = narrow<T>(static_cast<A>((exp(-distance) / sum - 1.0) * gradient_scale));
  for (int64_t begin = threadIdx.x * size; begin < columns; begin += row_threads * size) {
    GpuPack<T, size> pack = load_pack<size>(x + begin);
#pragma unroll
    for (int k = 0; k < size; ++k) {
      const int64_t i = begin + k;
      const T of_others = narrow<T>(i < vocabulary ? exp(widen(pack.elements[k]) - top) * factor : A{0});
      pack.elements[k] = i == target ? at_target : of_others;
    }
    store_pack(x + begin, pack);
  }
}

}  // namespace

void launch_cross_entropy(const CrossEntropyRows& rows, double gradient_scale, void* stream) {
  for_gpu_type(rows.logits.type, [&]<typename T>(T) {
    const bool packed = are_packs<whole_pack<T>>(rows.columns, elements<const T>(rows.logits));
    with_pack_size<T>(packed, [&]<int size>(std::integral_constant<int, size>) {
      launch(cross_entropy_row<T, size>, static_cast<unsigned>(rows.rows), row_threads, stream,
             elements<T>(rows.logits), rows.targets, rows.losses, rows.vocabulary, rows.columns, gradient_scale);
    });
  });
}

}  // namespace terrace::ops::cuda
