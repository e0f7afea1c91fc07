// Computes layer norm and RMS norm with one thread block per row; the gradients of weight and bias with one thread for
// each column of 32 rows.
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>

#include "terrace/ops/cuda/kernels.h"
#include "terrace/ops/cuda/launch.cuh"

namespace terrace::ops::cuda {
namespace {

constexpr int row_threads = 256;
constexpr int64_t column_threads = 128;
constexpr int64_t block_rows = 32;

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

void norm(const NormShape& shape, const NormForward& t) {
  const int64_t rows = t.x.size(0), columns = t.x.size(1);
  at::Tensor sum = t.sum;
  if (t.added.defined()) at::add_out(sum, t.x, t.added);
  const at::Tensor& x = t.added.defined() ? sum : t.x;
  for_type(x.scalar_type(), [&]<typename T>(T) {
    using A = Wide<T>;
    launch(norm_row<T>, static_cast<unsigned>(rows), row_threads, x.device(), shape.centered,
           static_cast<A>(shape.epsilon), x.const_data_ptr<T>(), t.weight.const_data_ptr<T>(),
           pointer_or_null<T>(t.bias), t.y.mutable_data_ptr<T>(), mutable_pointer_or_null<A>(t.mean),
           t.inverse.mutable_data_ptr<A>(), columns);
  });
}

void norm_backward(const NormShape& shape, const NormBackward& t) {
  const int64_t rows = t.x.size(0), columns = t.x.size(1);
  const unsigned blocks = pieces(rows, block_rows);
  TERRACE_CHECK(shape.centered == t.mean.defined(), "a norm is centered where it has means");
  const auto partial = [&](const at::Tensor& sums) {
    return sums.defined() ? at::empty({blocks, columns}, sums.options()) : at::Tensor();
  };
  const at::Tensor weight_partial = partial(t.weight_sums), bias_partial = partial(t.bias_sums);
  for_type(t.x.scalar_type(), [&]<typename T>(T) {
    using A = Wide<T>;
    const T *slope = t.dy.const_data_ptr<T>(), *from = t.x.const_data_ptr<T>();
    const A *means = pointer_or_null<A>(t.mean), *inverses = t.inverse.const_data_ptr<A>();
    launch(norm_backward_row<T>, static_cast<unsigned>(rows), row_threads, t.x.device(), slope, from,
           t.weight.const_data_ptr<T>(), means, inverses, t.dx.mutable_data_ptr<T>(), columns);
    if (!t.weight_sums.defined() && !t.bias_sums.defined()) return;
    launch(norm_parameter_sums<T>, dim3(blocks, pieces(columns, column_threads)), column_threads, t.x.device(), slope,
           from, means, inverses, mutable_pointer_or_null<A>(weight_partial), mutable_pointer_or_null<A>(bias_partial),
           rows, columns);
  });
  if (t.d_sum.defined()) t.dx.add_(t.d_sum);
  if (t.weight_sums.defined()) add_column_sums(t.weight_sums, weight_partial);
  if (t.bias_sums.defined()) add_column_sums(t.bias_sums, bias_partial);
}

}  // namespace terrace::ops::cuda
