// Gathers, sums and multiplies rows of experts, each of which one thread computes.
#include "terrace/ops/cpu/expert_rows.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>

#include "terrace/base/error.h"
#include "terrace/ops/cpu/lane_vectors.h"
#include "terrace/ops/element_type.h"

namespace terrace::ops::cpu {
namespace {

constexpr int64_t rows_grain = 32768;  // elements that are worth a thread

template <typename Body>
void over_expert_rows(int64_t rows, int64_t elements, const Body& body) {
  at::parallel_for(0, rows, std::max<int64_t>(1, rows_grain / std::max<int64_t>(elements, 1)), body);
}

// The rows of a token among `values`, and their weights or null.
template <typename T>
struct TokenRows {
  const T* values;
  const int64_t* places;
  const Wide<T>* weights;
};

template <int bytes, typename T>
TERRACE_INLINE inline void scale_row(const T* x, Wide<T> weight, int64_t columns, T* out) {
  for_vectors(columns, [&](int64_t i, auto count)
                           TERRACE_INLINE { store_lanes(out + i, load_lanes<bytes>(x + i, count) * weight, count); });
}

template <int bytes, typename T>
TERRACE_INLINE inline void sum_token(const TokenRows<T>& rows, int64_t slots, int64_t columns, T* out) {
  for_groups<bytes / 8>(columns, [&]<int vectors>(int64_t left, Vectors<vectors>, auto count) TERRACE_INLINE {
    Lanes<Wide<T>, bytes> sum[vectors];
    for (int64_t j = 0; j < slots; ++j) {
      const T* row = rows.values + rows.places[j] * columns + left;
      const Wide<T> weight = rows.weights == nullptr ? Wide<T>{1} : rows.weights[j];
      TERRACE_PIECE_LOOP
      for (int v = 0; v < vectors; ++v) sum[v] = sum[v] + load_lanes<bytes>(row + v * num_lanes, count) * weight;
    }
    TERRACE_PIECE_LOOP
    for (int v = 0; v < vectors; ++v) store_lanes(out + left + v * num_lanes, sum[v], count);
  });
}

}  // namespace

void gather_rows(const at::Tensor& x, const at::Tensor& pairs, int64_t slots, const at::Tensor& weights,
                 const at::Tensor& out) {
  const int64_t columns = x.size(1);
  TERRACE_CHECK(x.is_contiguous() && out.is_contiguous() && out.size(0) == pairs.size(0) && out.size(1) == columns,
                "{} rows of {} columns from {}", out.size(0), out.size(1), columns);
  const int64_t* pair_of = pairs.const_data_ptr<int64_t>();
  for_type(x.scalar_type(), [&]<typename T>(T) {
    const T* from = x.const_data_ptr<T>();
    T* to = out.mutable_data_ptr<T>();
    const Wide<T>* weight_of = weights.defined() ? weights.const_data_ptr<Wide<T>>() : nullptr;
    over_expert_rows(out.size(0), columns, [&](int64_t begin, int64_t end) {
      with_widest_registers([&]<int bytes>(RegisterBytes<bytes>) TERRACE_INLINE {
        for (int64_t row = begin; row < end; ++row) {
          const T* source = from + pair_of[row] / slots * columns;
          if (weight_of == nullptr) {
            std::memcpy(static_cast<void*>(to + row * columns), source, static_cast<size_t>(columns) * sizeof(T));
          } else {
            scale_row<bytes>(source, weight_of[pair_of[row]], columns, to + row * columns);
          }
        }
      });
    });
  });
}

void sum_rows(const at::Tensor& values, const at::Tensor& places, int64_t slots, const at::Tensor& weights,
              const at::Tensor& out) {
  const int64_t columns = values.size(1);
  TERRACE_CHECK(
      values.is_contiguous() && out.is_contiguous() && out.size(0) * slots == places.size(0) && out.size(1) == columns,
      "{} sums of {} rows", out.size(0), places.size(0));
  const int64_t* place_of = places.const_data_ptr<int64_t>();
  for_type(values.scalar_type(), [&]<typename T>(T) {
    const T* from = values.const_data_ptr<T>();
    T* to = out.mutable_data_ptr<T>();
    const Wide<T>* weight_of = weights.defined() ? weights.const_data_ptr<Wide<T>>() : nullptr;
    over_expert_rows(out.size(0), slots * columns, [&](int64_t begin, int64_t end) {
      with_widest_registers([&]<int bytes>(RegisterBytes<bytes>) TERRACE_INLINE {
        for (int64_t n = begin; n < end; ++n) {
          const Wide<T>* own = weight_of == nullptr ? nullptr : weight_of + n * slots;
          sum_token<bytes>(TokenRows<T>{from, place_of + n * slots, own}, slots, columns, to + n * columns);
        }
      });
    });
  });
}

void row_products(const at::Tensor& x, const at::Tensor& values, const at::Tensor& places, int64_t slots,
                  const at::Tensor& products) {
  const int64_t columns = x.size(1);
  TERRACE_CHECK(x.is_contiguous() && values.is_contiguous() && products.is_contiguous() && values.size(1) == columns &&
                    products.numel() == places.size(0),
                "{} products of {} rows", products.numel(), places.size(0));
  const int64_t* place_of = places.const_data_ptr<int64_t>();
  for_type(x.scalar_type(), [&]<typename T>(T) {
    const T *from = x.const_data_ptr<T>(), *other = values.const_data_ptr<T>();
    Wide<T>* to = products.mutable_data_ptr<Wide<T>>();
    over_expert_rows(products.numel(), columns, [&](int64_t begin, int64_t end) {
      with_widest_registers([&]<int bytes>(RegisterBytes<bytes>) TERRACE_INLINE {
        for (int64_t pair = begin; pair < end; ++pair) {
          const T *a = from + pair / slots * columns, *b = other + place_of[pair] * columns;
          to[pair] = vector_sum<Wide<T>, bytes>(columns, [&](int64_t i, auto count) TERRACE_INLINE {
            return load_lanes<bytes>(a + i, count) * load_lanes<bytes>(b + i, count);
          });
        }
      });
    });
  });
}

void sum_parts(const at::Tensor& parts, const at::Tensor& sums) {
  const int64_t columns = parts.size(1);
  TERRACE_CHECK(parts.is_contiguous() && sums.is_contiguous() && sums.numel() == parts.size(0), "{} sums of {} rows",
                sums.numel(), parts.size(0));
  const auto* from = parts.const_data_ptr<float>();
  auto* to = sums.mutable_data_ptr<float>();
  over_expert_rows(sums.numel(), columns, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float sum = 0;
      for (int64_t part = 0; part < columns; ++part) sum += from[row * columns + part];
      to[row] = sum;
    }
  });
}

}  // namespace terrace::ops::cpu
