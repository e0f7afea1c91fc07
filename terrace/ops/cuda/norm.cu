// Computes layer norm and RMS norm with one thread block per row; the gradients of weight and bias with one thread for
// each column of 32 rows.

#include "terrace/ops/cuda/gpu_kernels.h"
#include "terrace/ops/cuda/launch.cuh"

namespace terrace::ops::cuda {
namespace {

constexpr int row_threads = 256;
constexpr int64_t column_threads = 128;

// The sum of term(0) .. term(n - 1), in every thread.
template <typename A, typename Term>
__device__ A row_sum(int64_t n, const Term& term) {
  A sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += row_threads) sum += term(i);
  return block_sum<row_threads>(sum);
}

template <typename T>
__global__ void norm_row(bool centered, Wide<T> epsilon, const T* xs, const T* weight, const T* bias, T* ys,
                         Wide<T>* means, Wide<T>* inverses, int64_t columns) {
  using A = Wide<T>;
  const T* x = xs + blockIdx.x * columns;
  T* y = ys + blockIdx.x * columns;
  const A count = static_cast<A>(columns);
  const A mean = centered ? row_sum<A>(columns, [&](int64_t i) { return widen(x[i]); }) / count : A{0};
  const A squares = row_sum<A>(columns, [&](int64_t i) {
    const A difference = widen(x[i]) - mean;
    return difference * difference;
  });
  const A inverse = A{1} / sqrt(squares / count + epsilon);
  if (threadIdx.x == 0) {
    if (centered) means[blockIdx.x] = mean;
    inverses[blockIdx.x] = inverse;
  }
  for (int64_t i = threadIdx.x; i < columns; i += row_threads) {
    const A scaled = (widen(x[i]) - mean) * inverse * widen(weight[i]);
    y[i] = narrow<T>(bias ? scaled + widen(bias[i]) : scaled);
  }
}

// terrace/ops/cpu/norm.cpp has the formula.
template <typename T>
__global__ void norm_backward_row(const T* dys, const T* xs, const T* weight, const Wide<T>* means,
                                  const Wide<T>* inverses, T* dxs, int64_t columns) {
  using A = Wide<T>;
  const T *dy = dys + blockIdx.x * columns, *x = xs + blockIdx.x * columns;
  T* dx = dxs + blockIdx.x * columns;
  const A count = static_cast<A>(columns), mean = means ? means[blockIdx.x] : A{0}, inverse = inverses[blockIdx.x];
  const A average =
      !means ? A{0} : row_sum<A>(columns, [&](int64_t i) { return widen(dy[i]) * widen(weight[i]); }) / count;
  const A slope =
      row_sum<A>(columns,
                 [&](int64_t i) { return widen(dy[i]) * widen(weight[i]) * ((widen(x[i]) - mean) * inverse); }) /
      count;
  for (int64_t i = threadIdx.x; i < columns; i += row_threads) {
    const A normal = (widen(x[i]) - mean) * inverse;
    dx[i] = narrow<T>(inverse * (widen(dy[i]) * widen(weight[i]) - average - normal * slope));
  }
}

// weight_sums, bias_sums [blocks of rows, columns], null if they are not needed.
template <typename T>
__global__ void norm_parameter_sums(const T* dys, const T* xs, const Wide<T>* means, const Wide<T>* inverses,
                                    Wide<T>* weight_sums, Wide<T>* bias_sums, int64_t rows, int64_t columns) {
  using A = Wide<T>;
  const int64_t column = blockIdx.y * column_threads + threadIdx.x;
  if (column >= columns) return;
  const int64_t begin = blockIdx.x * block_rows, end = min(rows, begin + block_rows);
  A weight_sum = 0, bias_sum = 0;
  for (int64_t row = begin; row < end; ++row) {
    const A dy = widen(dys[row * columns + column]), mean = means ? means[row] : A{0};
    weight_sum += dy * ((widen(xs[row * columns + column]) - mean) * inverses[row]);
    bias_sum += dy;
  }
  if (weight_sums) weight_sums[blockIdx.x * columns + column] = weight_sum;
  if (bias_sums) bias_sums[blockIdx.x * columns + column] = bias_sum;
}

}  // namespace

void launch_norm(const NormRows& norm, double epsilon, void* stream) {
  for_gpu_type(norm.x.type, [&]<typename T>(T) {
    using A = Wide<T>;
    launch(norm_row<T>, static_cast<unsigned>(norm.rows), row_threads, stream, norm.means.data != nullptr,
           static_cast<A>(epsilon), elements<const T>(norm.x), elements<const T>(norm.weight),
           elements<const T>(norm.bias), elements<T>(norm.y), elements<A>(norm.means), elements<A>(norm.inverses),
           norm.columns);
  });
}

void launch_norm_backward(const NormBackwardRows& norm, void* stream) {
  for_gpu_type(norm.x.type, [&]<typename T>(T) {
    using A = Wide<T>;
    const T *slope = elements<const T>(norm.dy), *from = elements<const T>(norm.x);
    const A *means = elements<const A>(norm.means), *inverses = elements<const A>(norm.inverses);
    launch(norm_backward_row<T>, static_cast<unsigned>(norm.rows), row_threads, stream, slope, from,
           elements<const T>(norm.weight), means, inverses, elements<T>(norm.dx), norm.columns);
    if (norm.weight_sums.data == nullptr && norm.bias_sums.data == nullptr) return;
    const dim3 blocks(static_cast<unsigned>(row_blocks(norm.rows)), pieces(norm.columns, column_threads));
    launch(norm_parameter_sums<T>, blocks, column_threads, stream, slope, from, means, inverses,
           elements<A>(norm.weight_sums), elements<A>(norm.bias_sums), norm.rows, norm.columns);
  });
}

}  // namespace terrace::ops::cuda
