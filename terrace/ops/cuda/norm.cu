// Computes layer norm and RMS norm with one thread block per row, which keeps the row in registers where it is not too
// wide; the gradients of weight and bias with one thread for some columns of 32 rows.

#include <type_traits>

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
struct NormPointers {
  const T *x, *added, *weight, *bias;  // added and bias may be null
  T *sum, *y;
  Wide<T>*means, *inverses;
  Wide<T> weight_offset;
};

template <typename T>
__global__ void norm_row(NormPointers<T> p, Wide<T> epsilon, int64_t columns) {
  using A = Wide<T>;
  const int64_t begin = blockIdx.x * columns;
  const T* x = p.x + begin;
  if (p.added) {
    for (int64_t i = threadIdx.x; i < columns; i += row_threads) {
      p.sum[begin + i] = narrow<T>(widen(x[i]) + widen(p.added[begin + i]));
    }
    x = p.sum + begin;  // each thread reads again only what it has written
  }
  T* y = p.y + begin;
  const A count = static_cast<A>(columns);
  const A mean = p.means ? row_sum<A>(columns, [&](int64_t i) { return widen(x[i]); }) / count : A{0};
  const A squares = row_sum<A>(columns, [&](int64_t i) {
    const A difference = widen(x[i]) - mean;
    return difference * difference;
  });
  const A inverse = A{1} / sqrt(squares / count + epsilon);
  if (threadIdx.x == 0) {
    if (p.means) p.means[blockIdx.x] = mean;
    p.inverses[blockIdx.x] = inverse;
  }
  for (int64_t i = threadIdx.x; i < columns; i += row_threads) {
    const A scaled = (widen(x[i]) - mean) * inverse * (widen(p.weight[i]) + p.weight_offset);
    y[i] = narrow<T>(p.bias ? scaled + widen(p.bias[i]) : scaled);
  }
}

// Computes what norm_row() does, with a row of at most packs * blockDim.x packs in registers.
template <typename T, int packs>
__global__ void __launch_bounds__(1024) norm_packed_row(NormPointers<T> p, Wide<T> epsilon, int64_t columns) {
  using A = Wide<T>;
  constexpr int size = whole_pack<T>;
  const int64_t begin = blockIdx.x * columns;
  A x[packs][size] = {};
  A sum = 0;
#pragma unroll
  for (int pack = 0; pack < packs; ++pack) {
    const int64_t i = (pack * int64_t{blockDim.x} + threadIdx.x) * size;
    if (i >= columns) continue;
    GpuPack<T, size> own = load_pack<size>(p.x + begin + i);
    if (p.added) {
      const GpuPack<T, size> added = load_pack<size>(p.added + begin + i);
#pragma unroll
      for (int k = 0; k < size; ++k) own.elements[k] = narrow<T>(widen(own.elements[k]) + widen(added.elements[k]));
      store_pack(p.sum + begin + i, own);
    }
#pragma unroll
    for (int k = 0; k < size; ++k) {
      x[pack][k] = widen(own.elements[k]);
      sum += x[pack][k];
    }
  }
  const A count = static_cast<A>(columns);
  const A mean = p.means ? sum_of_block(sum) / count : A{0};
  A squares = 0;
#pragma unroll
  for (int pack = 0; pack < packs; ++pack) {
    if ((pack * int64_t{blockDim.x} + threadIdx.x) * size >= columns) continue;
#pragma unroll
    for (int k = 0; k < size; ++k) squares += (x[pack][k] - mean) * (x[pack][k] - mean);
  }
  const A inverse = A{1} / sqrt(sum_of_block(squares) / count + epsilon);
  if (threadIdx.x == 0) {
    if (p.means) p.means[blockIdx.x] = mean;
    p.inverses[blockIdx.x] = inverse;
  }
#pragma unroll
  for (int pack = 0; pack < packs; ++pack) {
    const int64_t i = (pack * int64_t{blockDim.x} + threadIdx.x) * size;
    if (i >= columns) continue;
    const GpuPack<T, size> weight = load_pack<size>(p.weight + i);
    GpuPack<T, size> bias = {}, y = {};
    if (p.bias) bias = load_pack<size>(p.bias + i);
#pragma unroll
    for (int k = 0; k < size; ++k) {
      const A scaled = (x[pack][k] - mean) * inverse * (widen(weight.elements[k]) + p.weight_offset);
      y.elements[k] = narrow<T>(p.bias ? scaled + widen(bias.elements[k]) : scaled);
    }
    store_pack(p.y + begin + i, y);
  }
}

template <typename T>
struct NormBackwardPointers {
  const T *dy, *d_sum, *x, *weight;  // d_sum may be null
  const Wide<T>*means, *inverses;    // means too
  T* dx;
  Wide<T> weight_offset;
};

// terrace/ops/cpu/norm.cpp has the formula.
template <typename T>
__global__ void norm_backward_row(NormBackwardPointers<T> p, int64_t columns) {
  using A = Wide<T>;
  const int64_t begin = blockIdx.x * columns;
  const T *dy = p.dy + begin, *x = p.x + begin;
  const A count = static_cast<A>(columns), mean = p.means ? p.means[blockIdx.x] : A{0};
  const A inverse = p.inverses[blockIdx.x];
  const A average = !p.means ? A{0} : row_sum<A>(columns, [&](int64_t i) {
                                        return widen(dy[i]) * (widen(p.weight[i]) + p.weight_offset);
                                      }) / count;
  const A slope =
      row_sum<A>(columns,
                 [&](int64_t i) {
                   return widen(dy[i]) * (widen(p.weight[i]) + p.weight_offset) * ((widen(x[i]) - mean) * inverse);
                 }) /
      count;
  for (int64_t i = threadIdx.x; i < columns; i += row_threads) {
    const A normal = (widen(x[i]) - mean) * inverse;
    const A change = inverse * (widen(dy[i]) * (widen(p.weight[i]) + p.weight_offset) - average - normal * slope);
    p.dx[begin + i] = narrow<T>(p.d_sum ? widen(p.d_sum[begin + i]) + change : change);
  }
}

// Computes what norm_backward_row() does, with a row of at most packs * blockDim.x packs in registers.
template <typename T, int packs>
__global__ void __launch_bounds__(1024) norm_packed_backward_row(NormBackwardPointers<T> p, int64_t columns) {
  using A = Wide<T>;
  constexpr int size = whole_pack<T>;
  const int64_t begin = blockIdx.x * columns;
  const A count = static_cast<A>(columns), mean = p.means ? p.means[blockIdx.x] : A{0};
  const A inverse = p.inverses[blockIdx.x];
  A slopes[packs][size] = {}, normals[packs][size] = {};  // dy * weight, and (x - mean) * inverse
  A sum = 0, sum_of_products = 0;
#pragma unroll
  for (int pack = 0; pack < packs; ++pack) {
    const int64_t i = (pack * int64_t{blockDim.x} + threadIdx.x) * size;
    if (i >= columns) continue;
    const GpuPack<T, size> dy = load_pack<size>(p.dy + begin + i), x = load_pack<size>(p.x + begin + i);
    const GpuPack<T, size> weight = load_pack<size>(p.weight + i);
#pragma unroll
    for (int k = 0; k < size; ++k) {
      slopes[pack][k] = widen(dy.elements[k]) * (widen(weight.elements[k]) + p.weight_offset);
      normals[pack][k] = (widen(x.elements[k]) - mean) * inverse;
      sum += slopes[pack][k];
      sum_of_products += slopes[pack][k] * normals[pack][k];
    }
  }
  const A average = p.means ? sum_of_block(sum) / count : A{0};
  const A slope = sum_of_block(sum_of_products) / count;
#pragma unroll
  for (int pack = 0; pack < packs; ++pack) {
    const int64_t i = (pack * int64_t{blockDim.x} + threadIdx.x) * size;
    if (i >= columns) continue;
    GpuPack<T, size> dx = {};
    if (p.d_sum) dx = load_pack<size>(p.d_sum + begin + i);
#pragma unroll
    for (int k = 0; k < size; ++k) {
      const A change = inverse * (slopes[pack][k] - average - normals[pack][k] * slope);
      dx.elements[k] = narrow<T>(p.d_sum ? widen(dx.elements[k]) + change : change);
    }
    store_pack(p.dx + begin + i, dx);
  }
}

// weight_sums, bias_sums [blocks of rows, columns], null if they are not needed. A thread sums `size` columns.
template <typename T, int size>
__global__ void norm_parameter_sums(NormBackwardPointers<T> p, Wide<T>* weight_sums, Wide<T>* bias_sums, int64_t rows,
                                    int64_t columns) {
  using A = Wide<T>;
  const int64_t column = (blockIdx.y * column_threads + threadIdx.x) * size;
  if (column >= columns) return;
  const int64_t begin = blockIdx.x * block_rows, end = min(rows, begin + block_rows);
  A weight_sum[size] = {}, bias_sum[size] = {};
#pragma unroll 4
  for (int64_t row = begin; row < end; ++row) {
    const GpuPack<T, size> dy = load_pack<size>(p.dy + row * columns + column);
    const GpuPack<T, size> x = load_pack<size>(p.x + row * columns + column);
    const A mean = p.means ? p.means[row] : A{0}, inverse = p.inverses[row];
#pragma unroll
    for (int k = 0; k < size; ++k) {
      weight_sum[k] += widen(dy.elements[k]) * ((widen(x.elements[k]) - mean) * inverse);
      bias_sum[k] += widen(dy.elements[k]);
    }
  }
#pragma unroll
  for (int k = 0; k < size; ++k) {
    if (weight_sums) weight_sums[blockIdx.x * columns + column + k] = weight_sum[k];
    if (bias_sums) bias_sums[blockIdx.x * columns + column + k] = bias_sum[k];
  }
}

// Calls body(packs that a thread holds, threads) for a row that registers can hold; returns whether they can.
template <typename T, typename Body>
bool with_row_in_registers(int64_t columns, const Body& body) {
  const auto threads_of = [&](int64_t packs) {
    return pieces(pieces(columns, whole_pack<T> * packs), warp_threads) * warp_threads;
  };
  if (threads_of(1) <= 256) {
    body(std::integral_constant<int, 1>(), threads_of(1));
  } else if (threads_of(2) <= 1024) {
    body(std::integral_constant<int, 2>(), threads_of(2));
  } else {
    return false;
  }
  return true;
}

}  // namespace

void launch_norm(const NormRows& norm, double epsilon, void* stream) {
  for_gpu_type(norm.x.type, [&]<typename T>(T) {
    using A = Wide<T>;
    const NormPointers<T> p = {.x = elements<const T>(norm.x),
                               .added = elements<const T>(norm.added),
                               .weight = elements<const T>(norm.weight),
                               .bias = elements<const T>(norm.bias),
                               .sum = elements<T>(norm.sum),
                               .y = elements<T>(norm.y),
                               .means = elements<A>(norm.means),
                               .inverses = elements<A>(norm.inverses),
                               .weight_offset = static_cast<A>(norm.weight_offset)};
    const auto rows = static_cast<unsigned>(norm.rows);
    const bool packed = are_packs<whole_pack<T>>(norm.columns, p.x, p.added, p.weight, p.bias, p.sum, p.y);
    if (packed &&
        with_row_in_registers<T>(norm.columns, [&]<int packs>(std::integral_constant<int, packs>, auto threads) {
          launch(norm_packed_row<T, packs>, rows, threads, stream, p, static_cast<A>(epsilon), norm.columns);
        })) {
      return;
    }
    launch(norm_row<T>, rows, row_threads, stream, p, static_cast<A>(epsilon), norm.columns);
  });
}

void launch_norm_backward(const NormBackwardRows& norm, void* stream) {
  for_gpu_type(norm.x.type, [&]<typename T>(T) {
    using A = Wide<T>;
    const NormBackwardPointers<T> p = {.dy = elements<const T>(norm.dy),
                                       .d_sum = elements<const T>(norm.d_sum),
                                       .x = elements<const T>(norm.x),
                                       .weight = elements<const T>(norm.weight),
                                       .means = elements<const A>(norm.means),
                                       .inverses = elements<const A>(norm.inverses),
                                       .dx = elements<T>(norm.dx),
                                       .weight_offset = static_cast<A>(norm.weight_offset)};
    const auto rows = static_cast<unsigned>(norm.rows);
    const bool packed = are_packs<whole_pack<T>>(norm.columns, p.dy, p.d_sum, p.x, p.weight, p.dx);
    if (!packed ||
        !with_row_in_registers<T>(norm.columns, [&]<int packs>(std::integral_constant<int, packs>, auto threads) {
          launch(norm_packed_backward_row<T, packs>, rows, threads, stream, p, norm.columns);
        })) {
      launch(norm_backward_row<T>, rows, row_threads, stream, p, norm.columns);
    }
    if (norm.weight_sums.data == nullptr && norm.bias_sums.data == nullptr) return;
    with_pack_size<T>(packed, [&]<int size>(std::integral_constant<int, size>) {
      const dim3 blocks(static_cast<unsigned>(row_blocks(norm.rows)), pieces(norm.columns, column_threads * size));
      launch(norm_parameter_sums<T, size>, blocks, column_threads, stream, p, elements<A>(norm.weight_sums),
             elements<A>(norm.bias_sums), norm.rows, norm.columns);
    });
  });
}

}  // namespace terrace::ops::cuda
