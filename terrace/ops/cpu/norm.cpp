// Computes layer norm and RMS norm row by row.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "terrace/ops/cpu/kernels.h"
#include "terrace/ops/cpu/lanes.h"
#include "terrace/ops/element_type.h"

namespace terrace::ops::cpu {
namespace {

// Contributions to the weight's gradient are summed within blocks of this many rows, then over the blocks. The number
// is fixed so that the sum does not depend on the threads.
constexpr int64_t block_rows = 32;
constexpr int64_t grain_elements = 16384;

template <typename T>
TERRACE_VECTOR_CLONES void add_row(const T* x, const T* added, T* sum, int64_t columns) {
  for (int64_t i = 0; i < columns; ++i) sum[i] = narrow<T>(widen(x[i]) + widen(added[i]));
}

template <typename T>
TERRACE_VECTOR_CLONES void norm_row(const NormShape& shape, const T* x, const T* weight, const T* bias, T* y,
                                    Wide<T>* mean, Wide<T>* inverse, int64_t columns) {
  using A = Wide<T>;
  const A count = static_cast<A>(columns);
  A center = 0;
  if (shape.centered) {
    center = lane_sum<A>(columns, [&](int64_t i) TERRACE_INLINE { return widen(x[i]); }) / count;
    *mean = center;
  }
  const A squares = lane_sum<A>(columns, [&](int64_t i) TERRACE_INLINE {
    const A difference = widen(x[i]) - center;
    return difference * difference;
  });
  const A scale = A{1} / std::sqrt(squares / count + static_cast<A>(shape.epsilon));
  *inverse = scale;
  if (bias) {
    for (int64_t i = 0; i < columns; ++i) {
      y[i] = narrow<T>((widen(x[i]) - center) * scale * widen(weight[i]) + widen(bias[i]));
    }
  } else {
    for (int64_t i = 0; i < columns; ++i) y[i] = narrow<T>((widen(x[i]) - center) * scale * widen(weight[i]));
  }
}

// With n = (x - mean) * inverse and g = dy * weight: dx = inverse * (g - average(g) - n * average(g * n)), without the
// term average(g) for RMS norm. Adds d_sum to dx, dy * n to weight_sums and dy to bias_sums; each of the three may be
// null.
template <typename T>
TERRACE_VECTOR_CLONES void norm_backward_row(bool centered, const T* dy, const T* d_sum, const T* x, const T* weight,
                                             Wide<T> mean, Wide<T> inverse, T* dx, Wide<T>* weight_sums,
                                             Wide<T>* bias_sums, int64_t columns) {
  using A = Wide<T>;
  const A count = static_cast<A>(columns);
  const A average = !centered ? A{0} : lane_sum<A>(columns, [&](int64_t i) TERRACE_INLINE {
                                         return widen(dy[i]) * widen(weight[i]);
                                       }) / count;
  const A slope = lane_sum<A>(columns,
                              [&](int64_t i) TERRACE_INLINE {
                                return widen(dy[i]) * widen(weight[i]) * ((widen(x[i]) - mean) * inverse);
                              }) /
                  count;
  const auto change = [&](int64_t i) TERRACE_INLINE {
    const A normal = (widen(x[i]) - mean) * inverse;
    return inverse * (widen(dy[i]) * widen(weight[i]) - average - normal * slope);
  };
  if (d_sum) {
    for (int64_t i = 0; i < columns; ++i) dx[i] = narrow<T>(widen(d_sum[i]) + change(i));
  } else {
    for (int64_t i = 0; i < columns; ++i) dx[i] = narrow<T>(change(i));
  }
  if (weight_sums) {
    for (int64_t i = 0; i < columns; ++i) weight_sums[i] += widen(dy[i]) * ((widen(x[i]) - mean) * inverse);
  }
  if (bias_sums) {
    for (int64_t i = 0; i < columns; ++i) bias_sums[i] += widen(dy[i]);
  }
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
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * columns;
        if (added) add_row(from + at, added + at, sum + at, columns);
        norm_row(shape, (added ? sum : from) + at, scale, shift, to + at, means ? means + row : nullptr, inverses + row,
                 columns);
      }
    });
  });
}

void norm_backward(const NormShape& shape, const NormBackward& t) {
  const int64_t rows = t.x.size(0), columns = t.x.size(1);
  const int64_t blocks = (rows + block_rows - 1) / block_rows;
  const auto partial = [&](const at::Tensor& sums) {
    return sums.defined() ? at::zeros({blocks, columns}, sums.options()) : at::Tensor();
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
      for (int64_t row = begin * block_rows; row < std::min(rows, end * block_rows); ++row) {
        const int64_t block = row / block_rows * columns, at = row * columns;
        norm_backward_row(shape.centered, slope + at, passed ? passed + at : nullptr, from + at, scale,
                          means ? means[row] : A{0}, inverses[row], to + at, weights ? weights + block : nullptr,
                          biases ? biases + block : nullptr, columns);
      }
    });
  });
  if (t.weight_sums.defined()) add_column_sums(t.weight_sums, weight_partial);
  if (t.bias_sums.defined()) add_column_sums(t.bias_sums, bias_partial);
}

}  // namespace terrace::ops::cpu
