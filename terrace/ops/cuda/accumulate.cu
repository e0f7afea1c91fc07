// Adds to gradient buffers, whose type may differ from the type of the terms. Each sum is computed by one thread in the
// order of the CPU kernels, so both devices give the same bits. No addition is atomic.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sort.h>
#include <c10/macros/Macros.h>

#include <optional>
#include <tuple>

#include "terrace/ops/cuda/kernels.h"
#include "terrace/ops/cuda/launch.cuh"

namespace terrace::ops::cuda {
namespace {

constexpr int64_t element_threads = 256;
constexpr int64_t column_threads = 128;
constexpr int64_t block_rows = 32;  // rows that are summed before the sums of blocks are added, as on the CPU

template <typename G, typename T>
__global__ void add_elements(G* into, const T* from, int64_t n) {
  using A = Wider<G, T>;
  const int64_t i = blockIdx.x * element_threads + threadIdx.x;
  if (i < n) into[i] = narrow<G>(A(widen(into[i])) + A(widen(from[i])));
}

// totals [blocks of rows, columns]
template <typename T, typename A>
__global__ void sum_row_blocks(const T* from, A* totals, int64_t rows, int64_t columns) {
  const int64_t column = blockIdx.y * column_threads + threadIdx.x;
  if (column >= columns) return;
  const int64_t begin = blockIdx.x * block_rows, end = min(rows, begin + block_rows);
  A sum = 0;
  for (int64_t row = begin; row < end; ++row) sum += A(widen(from[row * columns + column]));
  totals[blockIdx.x * columns + column] = sum;
}

template <typename G, typename A>
__global__ void add_totals(G* into, const A* totals, int64_t blocks, int64_t columns) {
  const int64_t column = blockIdx.x * column_threads + threadIdx.x;
  if (column >= columns) return;
  A sum = 0;
  for (int64_t block = 0; block < blocks; ++block) sum += totals[block * columns + column];
  into[column] = narrow<G>(A(widen(into[column])) + sum);
}

// The end of the run of equal values that begins at `begin` in the sorted array.
__device__ int64_t end_of_equal(const int64_t* sorted, int64_t begin, int64_t n) {
  const int64_t value = sorted[begin];
  int64_t low = begin + 1, high = n;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (sorted[middle] == value) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// The thread block at the first occurrence of an index in the sorted list adds all rows of that index; the blocks at
// later occurrences return at once.
template <typename G, typename T>
__global__ void add_sorted_rows(G* into, const int64_t* sorted, const int64_t* order, const T* from, int64_t rows,
                                int64_t columns, int64_t table_rows) {
  using A = Wider<G, T>;
  const int64_t first = blockIdx.x, row = sorted[first];
  CUDA_KERNEL_ASSERT(row >= 0 && row < table_rows);
  if (first > 0 && sorted[first - 1] == row) return;
  const int64_t column = blockIdx.y * column_threads + threadIdx.x;
  if (column >= columns) return;
  const int64_t last = end_of_equal(sorted, first, rows);
  G value = into[row * columns + column];
#pragma unroll 4
  for (int64_t i = first; i < last; ++i) {
    value = narrow<G>(A(widen(value)) + A(widen(from[order[i] * columns + column])));
  }
  into[row * columns + column] = value;
}

}  // namespace

void add(const at::Tensor& into, const at::Tensor& from) {
  TERRACE_CHECK(into.is_contiguous() && from.is_contiguous() && into.numel() == from.numel(), "{} += {} elements",
                into.numel(), from.numel());
  for_types(into.scalar_type(), from.scalar_type(), [&]<typename G, typename T>(G, T) {
    launch(add_elements<G, T>, pieces(into.numel(), element_threads), element_threads, into.device(),
           into.mutable_data_ptr<G>(), from.const_data_ptr<T>(), into.numel());
  });
}

void add_column_sums(const at::Tensor& into, const at::Tensor& from) {
  const int64_t rows = from.size(0), columns = from.size(1);
  TERRACE_CHECK(into.is_contiguous() && from.is_contiguous() && into.numel() == columns, "{} sums of {} columns",
                into.numel(), columns);
  const unsigned blocks = pieces(rows, block_rows), tiles = pieces(columns, column_threads);
  for_types(into.scalar_type(), from.scalar_type(), [&]<typename G, typename T>(G, T) {
    using A = Wider<G, T>;
    const at::Tensor totals = at::empty({blocks, columns}, from.options().dtype(c10::CppTypeToScalarType<A>::value));
    launch(sum_row_blocks<T, A>, dim3(blocks, tiles), column_threads, from.device(), from.const_data_ptr<T>(),
           totals.mutable_data_ptr<A>(), rows, columns);
    launch(add_totals<G, A>, tiles, column_threads, into.device(), into.mutable_data_ptr<G>(),
           totals.const_data_ptr<A>(), blocks, columns);
  });
}

void add_rows(const at::Tensor& into, const at::Tensor& indices, const at::Tensor& from) {
  const int64_t rows = from.size(0), columns = from.size(1);
  TERRACE_CHECK(into.is_contiguous() && from.is_contiguous() && indices.numel() == rows && into.size(1) == columns,
                "{} rows of {} columns into {}", rows, columns, into.size(1));
  // Stable, so that the rows of one index keep their order. The overload with a plain bool would take it for a
  // dimension.
  const auto [sorted, order] = at::sort(indices, /*stable=*/std::optional(true), /*dim=*/0, /*descending=*/false);
  const int64_t *row_of = sorted.const_data_ptr<int64_t>(), *position_of = order.const_data_ptr<int64_t>();
  for_types(into.scalar_type(), from.scalar_type(), [&]<typename G, typename T>(G, T) {
    launch(add_sorted_rows<G, T>, dim3(static_cast<unsigned>(rows), pieces(columns, column_threads)), column_threads,
           into.device(), into.mutable_data_ptr<G>(), row_of, position_of, from.const_data_ptr<T>(), rows, columns,
           into.size(0));
  });
}

}  // namespace terrace::ops::cuda
