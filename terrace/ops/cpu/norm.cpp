// Computes layer norm and RMS norm row by row.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "terrace/ops/cpu/kernels.h"
#include "terrace/ops/cpu/lane_vectors.h"
#include "terrace/ops/element_type.h"

namespace terrace::ops::cpu {
namespace {

// Contributions to the weight's gradient are summed within blocks of this many rows, then over the blocks. The number
// is fixed so that the sum does not depend on the threads.
constexpr int64_t block_rows = 32;
constexpr int64_t grain_elements = 16384;

// Rows in the computing type, so that each element is converted once.
template <typename A>
class RowBuffers {
 public:
  RowBuffers(int64_t rows, int64_t columns) : columns_(columns), values_(static_cast<size_t>(rows * columns)) {}
  A* operator[](int64_t row) { return values_.data() + row * columns_; }

 private:
  int64_t columns_;
  std::vector<A> values_;
};

// The row in the computing type, which is in the buffer if it had to be converted.
template <int bytes, typename T>
TERRACE_INLINE inline const Wide<T>* wide_row(const T* from, Wide<T>* buffer, int64_t columns) {
  if constexpr (std::is_same_v<T, Wide<T>>) {
    return from;
  } else {
    for_vectors(columns, [&](int64_t i, auto count)
                             TERRACE_INLINE { store_lanes(buffer + i, load_lanes<bytes>(from + i, count), count); });
    return buffer;
  }
}

// The weights in the computing type, with the offset added.
template <int bytes, typename T>
TERRACE_INLINE inline const Wide<T>* wide_weights(const T* from, double offset, Wide<T>* buffer, int64_t columns) {
  if (offset == 0) return wide_row<bytes>(from, buffer, columns);
  for_vectors(columns, [&](int64_t i, auto count) TERRACE_INLINE {
    store_lanes(buffer + i, load_lanes<bytes>(from + i, count) + static_cast<Wide<T>>(offset), count);
  });
  return buffer;
}

template <int bytes, typename T>
TERRACE_INLINE inline void add_row(const T* x, const T* added, T* sum, int64_t columns) {
  for_vectors(columns, [&](int64_t i, auto count) TERRACE_INLINE {
    store_lanes(sum + i, load_lanes<bytes>(x + i, count) + load_lanes<bytes>(added + i, count), count);
  });
}

// x, weight and bias are in the computing type.
template <int bytes, typename T, typename A = Wide<T>>
TERRACE_INLINE inline void norm_row(const NormShape& shape, const A* x, const A* weight, const A* bias, T* y, A* mean,
                                    A* inverse, int64_t columns) {
  const A size = static_cast<A>(columns);
  A center = 0;
  if (shape.centered) {
    center = vector_sum<A, bytes>(
                 columns, [&](int64_t i, auto count) TERRACE_INLINE { return load_lanes<bytes>(x + i, count); }) /
             size;
    *mean = center;
  }
  const A squares = vector_sum<A, bytes>(columns, [&](int64_t i, auto count) TERRACE_INLINE {
    const Lanes<A, bytes> difference = load_lanes<bytes>(x + i, count) - center;
    return difference * difference;
  });
  const A scale = A{1} / std::sqrt(squares / size + static_cast<A>(shape.epsilon));
  *inverse = scale;
  for_vectors(columns, [&](int64_t i, auto count) TERRACE_INLINE {
    const Lanes<A, bytes> scaled =
        (load_lanes<bytes>(x + i, count) - center) * scale * load_lanes<bytes>(weight + i, count);
    store_lanes(y + i, bias ? scaled + load_lanes<bytes>(bias + i, count) : scaled, count);
  });
}

// Computes dx, where n = (x - mean) * inverse and g = dy * weight: dx = inverse * (g - average(g) - n * average(g *
// n)), without the term average(g) for RMS norm. Adds d_sum to dx, dy * n to weight_sums and dy to bias_sums; each of
// the three may be null. Writes n and dy to `normal` and `slope`.
template <int bytes, typename T, typename A = Wide<T>>
TERRACE_INLINE inline void norm_backward_row(bool centered, const T* dy, const T* d_sum, const T* x, const A* weight,
                                             A mean, A inverse, T* dx, A* weight_sums, A* bias_sums, A* normal,
                                             A* slope, int64_t columns) {
  const A size = static_cast<A>(columns);
  Lanes<A, bytes> sum, sum_of_products;
  for_vectors(columns, [&](int64_t i, auto count) TERRACE_INLINE {
    const Lanes<A, bytes> n = (load_lanes<bytes>(x + i, count) - mean) * inverse, d = load_lanes<bytes>(dy + i, count),
                          g = d * load_lanes<bytes>(weight + i, count);
    store_lanes(normal + i, n, count);
    store_lanes(slope + i, d, count);
    sum = sum + counted(g, count);
    sum_of_products = sum_of_products + counted(g * n, count);
  });
  const A average = centered ? sum_of_lanes(sum) / size : A{0};
  const A average_of_products = sum_of_lanes(sum_of_products) / size;
  for_vectors(columns, [&](int64_t i, auto count) TERRACE_INLINE {
    const Lanes<A, bytes> n = load_lanes<bytes>(normal + i, count), d = load_lanes<bytes>(slope + i, count);
    const Lanes<A, bytes> change =
        inverse * (d * load_lanes<bytes>(weight + i, count) - average - n * average_of_products);
    store_lanes(dx + i, d_sum ? load_lanes<bytes>(d_sum + i, count) + change : change, count);
    if (weight_sums) store_lanes(weight_sums + i, load_lanes<bytes>(weight_sums + i, count) + d * n, count);
    if (bias_sums) store_lanes(bias_sums + i, load_lanes<bytes>(bias_sums + i, count) + d, count);
  });
}

template <typename A>
A* pointer_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr<A>() : nullptr;
}

}  // namespace

void norm(const NormShape& shape, const NormForward& t) {
  const int64_t rows = t.x.size(0), columns = t.x.size(1);
  for_type(t.x.scalar_type(), [&]<typename T>(T) {
    const T* from = t.x.const_data_ptr<T>();
    const T* added = t.added.defined() ? t.added.const_data_ptr<T>() : nullptr;
    const T* scale = t.weight.const_data_ptr<T>();
    const T* shift = t.bias.defined() ? t.bias.const_data_ptr<T>() : nullptr;
    T* sum = added ? t.sum.mutable_data_ptr<T>() : nullptr;
    T* to = t.y.mutable_data_ptr<T>();
    auto* means = pointer_or_null<Wide<T>>(t.mean);
    auto* inverses = t.inverse.mutable_data_ptr<Wide<T>>();
    at::parallel_for(0, rows, std::max<int64_t>(1, grain_elements / columns), [&](int64_t begin, int64_t end) {
      RowBuffers<Wide<T>> wide(3, columns);
      with_widest_registers([&]<int bytes>(RegisterBytes<bytes>) TERRACE_INLINE {
        const Wide<T>* weights = wide_weights<bytes>(scale, shape.weight_offset, wide[1], columns);
        const Wide<T>* biases = shift ? wide_row<bytes>(shift, wide[2], columns) : nullptr;
        for (int64_t row = begin; row < end; ++row) {
          const int64_t at = row * columns;
          if (added) add_row<bytes>(from + at, added + at, sum + at, columns);
          const T* summed = (added ? sum : from) + at;
          norm_row<bytes>(shape, wide_row<bytes>(summed, wide[0], columns), weights, biases, to + at,
                          means ? means + row : nullptr, inverses + row, columns);
        }
      });
    });
  });
}

void norm_backward(const NormShape& shape, const NormBackward& t) {
  const int64_t rows = t.x.size(0), columns = t.x.size(1);
  const int64_t blocks = (rows + block_rows - 1) / block_rows;
  const auto partial = [&](const at::Tensor& sums) {
    return sums.defined() ? at::empty({blocks, columns}, sums.options()) : at::Tensor();
  };
  const at::Tensor weight_partial = partial(t.weight_sums), bias_partial = partial(t.bias_sums);
  for_type(t.x.scalar_type(), [&]<typename T>(T) {
    using A = Wide<T>;
    const T *slope = t.dy.const_data_ptr<T>(), *from = t.x.const_data_ptr<T>(), *scale = t.weight.const_data_ptr<T>();
    const T* passed = t.d_sum.defined() ? t.d_sum.const_data_ptr<T>() : nullptr;
    T* to = t.dx.mutable_data_ptr<T>();
    const A* means = pointer_or_null<A>(t.mean);
    const A* inverses = t.inverse.const_data_ptr<A>();
    A *weights = pointer_or_null<A>(weight_partial), *biases = pointer_or_null<A>(bias_partial);
    at::parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
      RowBuffers<A> wide(3, columns);
      with_widest_registers([&]<int bytes>(RegisterBytes<bytes>) TERRACE_INLINE {
        const A* weight = wide_weights<bytes>(scale, shape.weight_offset, wide[2], columns);
        for (int64_t block = begin; block < end; ++block) {
          A* weight_sums = weights ? weights + block * columns : nullptr;
          A* bias_sums = biases ? biases + block * columns : nullptr;
          if (weight_sums) std::fill_n(weight_sums, columns, A{0});
          if (bias_sums) std::fill_n(bias_sums, columns, A{0});
          for (int64_t row = block * block_rows; row < std::min(rows, (block + 1) * block_rows); ++row) {
            const int64_t at = row * columns;
            norm_backward_row<bytes>(shape.centered, slope + at, passed ? passed + at : nullptr, from + at, weight,
                                     means ? means[row] : A{0}, inverses[row], to + at, weight_sums, bias_sums, wide[0],
                                     wide[1], columns);
          }
        }
      });
    });
  });
  if (t.weight_sums.defined()) add_column_sums(t.weight_sums, weight_partial);
  if (t.bias_sums.defined()) add_column_sums(t.bias_sums, bias_partial);
}

}  // namespace terrace::ops::cpu
