// Sums and extremes over the elements of each row: one thread for each row and column, in the order of the CPU kernels,
// so both devices give the same bits.
#include "terrace/ops/cuda/gpu_kernels.h"
#include "terrace/ops/cuda/launch.cuh"

namespace terrace::ops::cuda {
namespace {

constexpr int64_t segment_threads = 128;

template <typename T>
__global__ void sum_rows_of_segments(const T* elements, const int64_t* order, const int64_t* first, T* sums,
                                     int64_t columns) {
  const int64_t row = blockIdx.x, column = blockIdx.y * segment_threads + threadIdx.x;
  if (column >= columns) return;
  Wide<T> sum = 0;
  const int64_t end = first[row + 1];
#pragma unroll 4
  for (int64_t place = first[row]; place < end; ++place) {
    const int64_t element = order == nullptr ? place : order[place];
    sum += Wide<T>(widen(elements[element * columns + column]));
  }
  sums[row * columns + column] = narrow<T>(sum);
}

template <typename T>
__global__ void extremes_of_rows(const T* elements, const int64_t* order, const int64_t* first, bool largest,
                                 int64_t* found, int64_t columns) {
  const int64_t row = blockIdx.x, column = blockIdx.y * segment_threads + threadIdx.x;
  if (column >= columns) return;
  int64_t at = -1;
  Wide<T> best = 0;
  const int64_t end = first[row + 1];
  for (int64_t place = first[row]; place < end; ++place) {
    const int64_t element = order == nullptr ? place : order[place];
    const Wide<T> value = Wide<T>(widen(elements[element * columns + column]));
    const bool better = largest ? value > best : value < best;
    if (at < 0 || better || (value != value && best == best)) {
      at = element;
      best = value;
    }
  }
  found[row * columns + column] = at;
}

dim3 blocks_of(const SegmentRows& segments) {
  return dim3(static_cast<unsigned>(segments.rows), pieces(segments.columns, segment_threads));
}

}  // namespace

void launch_sum_segments(const SegmentRows& segments, GpuArray sums, void* stream) {
  for_gpu_type(segments.elements.type, [&]<typename T>(T) {
    launch(sum_rows_of_segments<T>, blocks_of(segments), segment_threads, stream, elements<const T>(segments.elements),
           segments.order, segments.first, elements<T>(sums), segments.columns);
  });
}

void launch_extremes_of_segments(const SegmentRows& segments, bool largest, int64_t* found, void* stream) {
  for_gpu_type(segments.elements.type, [&]<typename T>(T) {
    launch(extremes_of_rows<T>, blocks_of(segments), segment_threads, stream, elements<const T>(segments.elements),
           segments.order, segments.first, largest, found, segments.columns);
  });
}

}  // namespace terrace::ops::cuda
