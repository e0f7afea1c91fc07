// Layer norm and RMS norm, row by row.
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

// Rows whose contributions to the weight's gradient are summed before they meet the others': fixed, so that the sum
// does not depend on the threads.
constexpr int64_t block_rows = 32;
constexpr int64_t grain_elements = 16384;

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

// With n = (x - mean) * inverse and g = dy * weight: dx = inverse * (g - average(g) - n * average(g * n)), where RMS
// norm has no average(g). Adds dy * n to weight_sums and dy to bias_sums.
template <typename T>
TERRACE_VECTOR_CLONES void norm_backward_row(bool centered, const T* dy, const T* x, const T* weight, Wide<T> mean,
                                             Wide<T> inverse, T* dx, Wide<T>* weight_sums, Wide<T>* bias_sums,
                                             int64_t columns) {
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
  for (int64_t i = 0; i < columns; ++i) {
    const A normal = (widen(x[i]) - mean) * inverse;
    dx[i] = narrow<T>(inverse * (widen(dy[i]) * widen(weight[i]) - average - normal * slope));
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

void norm(const NormShape& shape, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
          const at::Tensor& y, const at::Tensor& mean, const at::Tensor& inverse) {
  const int64_t rows = x.size(0), columns = x.size(1);
  for_type(x.scalar_type(), [&]<typename T>(T) {
    const T* from = x.const_data_ptr<T>();
    const T* scale = weight.const_data_ptr<T>();
    const T* shift = bias.defined() ? bias.const_data_ptr<T>() : nullptr;
    T* to = y.mutable_data_ptr<T>();
    auto* means = pointer_or_null<Wide<T>>(mean);
    auto* inverses = inverse.mutable_data_ptr<Wide<T>>();
    at::parallel_for(0, rows, std::max<int64_t>(1, grain_elements / columns), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        norm_row(shape, from + row * columns, scale, shift, to + row * columns, means ? means + row : nullptr,
                 inverses + row, columns);
      }
    });
  });
}

void norm_backward(const NormShape& shape, const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                   const at::Tensor& mean, const at::Tensor& inverse, const at::Tensor& dx,
                   const at::Tensor& weight_sums, const at::Tensor& bias_sums) {
  const int64_t rows = x.size(0), columns = x.size(1);
  const int64_t blocks = (rows + block_rows - 1) / block_rows;
  const auto partial = [&](const at::Tensor& sums) {
    return sums.defined() ? at::zeros({blocks, columns}, sums.options()) : at::Tensor();
  };
  const at::Tensor weight_partial = partial(weight_sums), bias_partial = partial(bias_sums);
  for_type(x.scalar_type(), [&]<typename T>(T) {
    using A = Wide<T>;
    const T *slope = dy.const_data_ptr<T>(), *from = x.const_data_ptr<T>(), *scale = weight.const_data_ptr<T>();
    T* to = dx.mutable_data_ptr<T>();
    const A* means = pointer_or_null<A>(mean);
    const A* inverses = inverse.const_data_ptr<A>();
    A *weights = pointer_or_null<A>(weight_partial), *biases = pointer_or_null<A>(bias_partial);
    at::parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin * block_rows; row < std::min(rows, end * block_rows); ++row) {
        const int64_t block = row / block_rows * columns, at = row * columns;
        norm_backward_row(shape.centered, slope + at, from + at, scale, means ? means[row] : A{0}, inverses[row],
                          to + at, weights ? weights + block : nullptr, biases ? biases + block : nullptr, columns);
      }
    });
  });
  if (weight_sums.defined()) add_column_sums(weight_sums, weight_partial);
  if (bias_sums.defined()) add_column_sums(bias_sums, bias_partial);
}

}  // namespace terrace::ops::cpu
