// Adds to gradient buffers, whose type may differ from the type of the terms.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>

#include "terrace/ops/cpu/kernels.h"
#include "terrace/ops/cpu/lanes.h"
#include "terrace/ops/element_type.h"

namespace terrace::ops::cpu {
namespace {

constexpr int64_t accumulate_grain = 32768;  // elements that are worth a thread

template <typename G, typename T>
TERRACE_VECTOR_CLONES void add_range(G* into, const T* from, int64_t n) {
  using A = Wider<G, T>;
  for (int64_t i = 0; i < n; ++i) into[i] = narrow<G>(A(widen(into[i])) + A(widen(from[i])));
}

// Sums columns [begin, end) in blocks of rows, so that the rounding error grows with the number of blocks, not of rows.
template <typename G, typename T>
TERRACE_VECTOR_CLONES void add_columns(G* into, const T* from, int64_t rows, int64_t stride, int64_t begin,
                                       int64_t end) {
  using A = Wider<G, T>;
  constexpr int64_t block_rows = 32;
  constexpr int64_t tile = 64;
  for (int64_t left = begin; left < end; left += tile) {
    const int64_t width = std::min(tile, end - left);
    A total[tile] = {};
    for (int64_t top = 0; top < rows; top += block_rows) {
      A block[tile] = {};
      for (int64_t row = top; row < std::min(rows, top + block_rows); ++row) {
        const T* line = from + row * stride + left;
        for (int64_t i = 0; i < width; ++i) block[i] += A(widen(line[i]));
      }
      for (int64_t i = 0; i < width; ++i) total[i] += block[i];
    }
    for (int64_t i = 0; i < width; ++i) into[left + i] = narrow<G>(A(widen(into[left + i])) + total[i]);
  }
}

}  // namespace

void add(const at::Tensor& into, const at::Tensor& from) {
  TERRACE_CHECK(into.is_contiguous() && from.is_contiguous() && into.numel() == from.numel(), "{} += {} elements",
                into.numel(), from.numel());
  for_types(into.scalar_type(), from.scalar_type(), [&]<typename G, typename T>(G, T) {
    G* to = into.mutable_data_ptr<G>();
    const T* source = from.const_data_ptr<T>();
    at::parallel_for(0, into.numel(), accumulate_grain,
                     [&](int64_t begin, int64_t end) { add_range(to + begin, source + begin, end - begin); });
  });
}

void add_column_sums(const at::Tensor& into, const at::Tensor& from) {
  const int64_t rows = from.size(0), columns = from.size(1);
  TERRACE_CHECK(into.is_contiguous() && from.is_contiguous() && into.numel() == columns, "{} sums of {} columns",
                into.numel(), columns);
  for_types(into.scalar_type(), from.scalar_type(), [&]<typename G, typename T>(G, T) {
    G* to = into.mutable_data_ptr<G>();
    const T* source = from.const_data_ptr<T>();
    at::parallel_for(0, columns, std::max<int64_t>(64, accumulate_grain / std::max<int64_t>(rows, 1)),
                     [&](int64_t begin, int64_t end) { add_columns(to, source, rows, columns, begin, end); });
  });
}

void add_rows(const at::Tensor& into, const at::Tensor& indices, const at::Tensor& from) {
  const int64_t rows = from.size(0), columns = from.size(1);
  TERRACE_CHECK(into.is_contiguous() && from.is_contiguous() && indices.numel() == rows && into.size(1) == columns,
                "{} rows of {} columns into {}", rows, columns, into.size(1));
  const int64_t* row_of = indices.const_data_ptr<int64_t>();
  for_types(into.scalar_type(), from.scalar_type(), [&]<typename G, typename T>(G, T) {
    G* to = into.mutable_data_ptr<G>();
    const T* source = from.const_data_ptr<T>();
    // Columns are divided among threads, so the additions to an element are always in the same order.
    at::parallel_for(0, columns, std::max<int64_t>(16, accumulate_grain / std::max<int64_t>(rows, 1)),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t n = 0; n < rows; ++n) {
                         add_range(to + row_of[n] * columns + begin, source + n * columns + begin, end - begin);
                       }
                     });
  });
}

}  // namespace terrace::ops::cpu
