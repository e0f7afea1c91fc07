// Sums and extremes over the elements of each row. Rows are divided among threads.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>

#include "terrace/ops/cpu/kernels.h"
#include "terrace/ops/cpu/lane_vectors.h"
#include "terrace/ops/element_type.h"

namespace terrace::ops::cpu {
namespace {

constexpr int64_t segment_grain = 32768;  // elements that are worth a thread

// The elements of rows, in the order of sums: `order` is null where that is the order of the elements.
struct SegmentPlaces {
  const int64_t* order;
  const int64_t* first;

  TERRACE_INLINE int64_t element(int64_t place) const { return order == nullptr ? place : order[place]; }
};

// sums [rows, columns] of the elements [E, columns].
template <int bytes, typename T>
TERRACE_INLINE inline void sum_rows(T* sums, const T* elements, SegmentPlaces places, int64_t columns, int64_t begin,
                                    int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    for_groups<bytes / 8>(columns, [&]<int vectors>(int64_t left, Vectors<vectors>, auto count) TERRACE_INLINE {
      Lanes<Wide<T>, bytes> sum[vectors];
      for (int64_t place = places.first[row]; place < places.first[row + 1]; ++place) {
        const T* line = elements + places.element(place) * columns + left;
        TERRACE_PIECE_LOOP
        for (int v = 0; v < vectors; ++v) sum[v] = sum[v] + load_lanes<bytes>(line + v * num_lanes, count);
      }
      TERRACE_PIECE_LOOP
      for (int v = 0; v < vectors; ++v) store_lanes(sums + row * columns + left + v * num_lanes, sum[v], count);
    });
  }
}

// A NaN counts as an extreme, so that it shows.
template <typename T>
void find_extremes(int64_t* found, const T* elements, SegmentPlaces places, bool largest, int64_t columns,
                   int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    int64_t* const of_row = found + row * columns;
    std::fill_n(of_row, columns, int64_t{-1});
    for (int64_t place = places.first[row]; place < places.first[row + 1]; ++place) {
      const int64_t element = places.element(place);
      for (int64_t column = 0; column < columns; ++column) {
        const auto value = widen(elements[element * columns + column]);
        const auto best = of_row[column] < 0 ? value : widen(elements[of_row[column] * columns + column]);
        const bool better = largest ? value > best : value < best;
        if (of_row[column] < 0 || better || (value != value && best == best)) of_row[column] = element;
      }
    }
  }
}

SegmentPlaces checked_places(const at::Tensor& elements, const at::Tensor& order, const at::Tensor& first,
                             const at::Tensor& results) {
  check_segments(elements, order, first, results);
  return {order.defined() ? order.const_data_ptr<int64_t>() : nullptr, first.const_data_ptr<int64_t>()};
}

template <typename Body>
void over_rows(int64_t rows, int64_t elements, int64_t columns, const Body& body) {
  const int64_t of_row = std::max<int64_t>(1, (elements / std::max<int64_t>(rows, 1) + 1) * columns);
  at::parallel_for(0, rows, std::max<int64_t>(1, segment_grain / of_row), body);
}

}  // namespace

void sum_segments(const at::Tensor& elements, const at::Tensor& order, const at::Tensor& first,
                  const at::Tensor& sums) {
  const SegmentPlaces places = checked_places(elements, order, first, sums);
  const int64_t columns = elements.size(1);
  for_type(elements.scalar_type(), [&]<typename T>(T) {
    over_rows(
        sums.size(0), order.defined() ? order.size(0) : elements.size(0), columns, [&](int64_t begin, int64_t end) {
          with_widest_registers([&]<int bytes>(RegisterBytes<bytes>) TERRACE_INLINE {
            sum_rows<bytes>(sums.mutable_data_ptr<T>(), elements.const_data_ptr<T>(), places, columns, begin, end);
          });
        });
  });
}

void extremes_of_segments(const at::Tensor& elements, const at::Tensor& order, const at::Tensor& first, bool largest,
                          const at::Tensor& found) {
  const SegmentPlaces places = checked_places(elements, order, first, found);
  const int64_t columns = elements.size(1);
  for_type(elements.scalar_type(), [&]<typename T>(T) {
    over_rows(found.size(0), elements.size(0), columns, [&](int64_t begin, int64_t end) {
      find_extremes(found.mutable_data_ptr<int64_t>(), elements.const_data_ptr<T>(), places, largest, columns, begin,
                    end);
    });
  });
}

}  // namespace terrace::ops::cpu
