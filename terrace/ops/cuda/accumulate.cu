// Adds to gradient buffers, whose type may differ from the type of the terms. Each sum is computed by one thread in the
// order of the CPU kernels, so both devices give the same bits. No addition is atomic.

#include "terrace/ops/cuda/gpu_kernels.h"
#include "terrace/ops/cuda/launch.cuh"

namespace terrace::ops::cuda {
namespace {

constexpr int64_t element_threads = 256;
constexpr int64_t column_threads = 128;
constexpr int64_t total_threads = 256;

template <typename G, typename T>
__global__ void add_elements(G* into, const T* from, int64_t n) {
  using A = Wider<G, T>;
  const int64_t i = blockIdx.x * element_threads + threadIdx.x;
  if (i < n) into[i] = narrow<G>(A(widen(into[i])) + A(widen(from[i])));
}

// totals [blocks of rows, columns]. A thread sums `size` columns.
template <typename T, typename A, int size>
__global__ void sum_row_blocks(const T* from, A* totals, int64_t rows, int64_t columns) {
  const int64_t column = (blockIdx.y * column_threads + threadIdx.x) * size;
  if (column >= columns) return;
  const int64_t begin = blockIdx.x * block_rows, end = min(rows, begin + block_rows);
  A sum[size] = {};
#pragma unroll 4
  for (int64_t row = begin; row < end; ++row) {
    const GpuPack<T, size> own = load_pack<size>(from + row * columns + column);
#pragma unroll
    for (int k = 0; k < size; ++k) sum[k] += A(widen(own.elements[k]));
  }
#pragma unroll
  for (int k = 0; k < size; ++k) totals[blockIdx.x * columns + column + k] = sum[k];
}

// A block of threads brings some totals of 32 columns to shared memory at a time, of which one thread a column adds
// them in their order: it does not wait for memory in between.
template <typename G, typename A>
__global__ void add_totals(G* into, const A* totals, int64_t blocks, int64_t columns) {
  constexpr int64_t tile_rows = 128, rows_at_once = total_threads / warp_threads;
  __shared__ A tile[tile_rows][warp_threads];
  const int64_t lane = threadIdx.x % warp_threads, column = blockIdx.x * warp_threads + lane;
  A sum = 0;
  for (int64_t begin = 0; begin < blocks; begin += tile_rows) {
    const int64_t rows = min(tile_rows, blocks - begin);
    __syncthreads();  // The totals before have been added.
#pragma unroll 4
    for (int64_t row = threadIdx.x / warp_threads; row < rows; row += rows_at_once) {
      if (column < columns) tile[row][lane] = totals[(begin + row) * columns + column];
    }
    __syncthreads();
    if (threadIdx.x < warp_threads && column < columns) {
#pragma unroll 16
      for (int64_t row = 0; row < rows; ++row) sum += tile[row][lane];
    }
  }
  if (threadIdx.x < warp_threads && column < columns) into[column] = narrow<G>(A(widen(into[column])) + sum);
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
  TERRACE_GPU_CHECK(row >= 0 && row < table_rows);
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

void launch_add(GpuArray into, GpuArray from, int64_t n, void* stream) {
  for_gpu_types(into.type, from.type, [&]<typename G, typename T>(G, T) {
    launch(add_elements<G, T>, pieces(n, element_threads), element_threads, stream, elements<G>(into),
           elements<const T>(from), n);
  });
}

void launch_add_column_sums(GpuArray into, GpuArray from, GpuArray totals, int64_t rows, int64_t columns,
                            void* stream) {
  const int64_t blocks = row_blocks(rows);
  for_gpu_types(into.type, from.type, [&]<typename G, typename T>(G, T) {
    using A = Wider<G, T>;
    const bool packed = are_packs<whole_pack<T>>(columns, elements<const T>(from));
    with_pack_size<T>(packed, [&]<int size>(std::integral_constant<int, size>) {
      launch(sum_row_blocks<T, A, size>, dim3(static_cast<unsigned>(blocks), pieces(columns, column_threads * size)),
             column_threads, stream, elements<const T>(from), elements<A>(totals), rows, columns);
    });
    launch(add_totals<G, A>, pieces(columns, warp_threads), total_threads, stream, elements<G>(into),
           elements<const A>(totals), blocks, columns);
  });
}

void launch_add_sorted_rows(GpuArray into, const int64_t* sorted, const int64_t* order, GpuArray from, int64_t rows,
                            int64_t columns, int64_t table_rows, void* stream) {
  for_gpu_types(into.type, from.type, [&]<typename G, typename T>(G, T) {
    launch(add_sorted_rows<G, T>, dim3(static_cast<unsigned>(rows), pieces(columns, column_threads)), column_threads,
           stream, elements<G>(into), sorted, order, elements<const T>(from), rows, columns, table_rows);
  });
}

}  // namespace terrace::ops::cuda
