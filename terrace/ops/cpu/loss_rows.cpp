// Computes references, sums and scaled rows with the widest registers of the processor.
#include "terrace/ops/cpu/loss_rows.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <limits>

#include "terrace/ops/cpu/lane_vectors.h"
#include "terrace/ops/element_type.h"
#include "terrace/profile/record.h"

namespace terrace::ops::cpu {
namespace {

constexpr int64_t grain = 16384;  // numbers that are worth a thread

// Calls body(RegisterBytes, row), which must be inlined, for all rows of so many numbers.
template <typename Body>
void for_rows(int64_t rows, int64_t row_numbers, const Body& body) {
  at::parallel_for(0, rows, std::max<int64_t>(1, grain / std::max<int64_t>(1, row_numbers)),
                   [&](int64_t begin, int64_t end) {
                     with_widest_registers([&]<int bytes>(RegisterBytes<bytes> registers) TERRACE_INLINE {
                       for (int64_t row = begin; row < end; ++row) body(registers, row);
                     });
                   });
}

template <int bytes, typename T>
TERRACE_INLINE inline float dot(const T* a, const T* b, int64_t n) {
  return static_cast<float>(vector_sum<Wide<T>, bytes>(n, [&](int64_t i, auto count) TERRACE_INLINE {
    return load_lanes<bytes>(a + i, count) * load_lanes<bytes>(b + i, count);
  }));
}

// The number of sums side by side, each of every so many numbers: one sum alone would wait for each addition.
constexpr int64_t sums_side_by_side = 8;

TERRACE_INLINE inline double sum_in_double(const float* x, int64_t n) {
  double sums[sums_side_by_side] = {};
  int64_t i = 0;
  for (; i + sums_side_by_side <= n; i += sums_side_by_side) {
    TERRACE_LANE_LOOP
    for (int64_t lane = 0; lane < sums_side_by_side; ++lane) sums[lane] += static_cast<double>(x[i + lane]);
  }
  double sum = 0;
  for (; i < n; ++i) sum += static_cast<double>(x[i]);
  for (const double one : sums) sum += one;
  return sum;
}

}  // namespace

void loss_references(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& columns,
                     const at::Tensor& few, const at::Tensor& references, const at::Tensor& logits) {
  const int64_t width = hidden.size(1), few_stride = few.stride(0), stride = weight.stride(0);
  const auto* column = columns.const_data_ptr<int64_t>();
  const auto* first = few.const_data_ptr<float>();
  auto *reference = references.mutable_data_ptr<float>(), *logit = logits.mutable_data_ptr<float>();
  for_type(hidden.scalar_type(), [&]<typename T>(T) {
    const T *x = hidden.const_data_ptr<T>(), *rows = weight.const_data_ptr<T>();
    for_rows(hidden.size(0), width, [&]<int bytes>(RegisterBytes<bytes>, int64_t row) TERRACE_INLINE {
      float top = -std::numeric_limits<float>::infinity();
      for (int64_t i = 0; i < few.size(1); ++i) top = std::max(top, first[row * few_stride + i]);
      logit[row] = column[row] < 0 ? 0.0F : dot<bytes>(x + row * width, rows + column[row] * stride, width);
      reference[row] = column[row] < 0 ? top : std::max(top, logit[row]);
    });
  });
}

void row_sums(const at::Tensor& parts, const at::Tensor& sums) {
  const int64_t columns = parts.size(1);
  const auto* part = parts.const_data_ptr<float>();
  auto* sum = sums.mutable_data_ptr<double>();
  for_rows(parts.size(0), columns, [&]<int bytes>(RegisterBytes<bytes>, int64_t row) TERRACE_INLINE {
    sum[row] = sum_in_double(part + row * columns, columns);
  });
}

at::Tensor scaled_rows(const at::Tensor& x, const at::Tensor& factors) {
  at::Tensor scaled = at::empty_like(x);
  const profile::OperationRecord record("terrace::scaled_rows", [&] {
    return profile::OperationCost{.bytes = 2 * profile::bytes_of({x}) + profile::bytes_of({factors})};
  });
  const int64_t width = x.size(1);
  const auto* factor = factors.const_data_ptr<float>();
  for_type(x.scalar_type(), [&]<typename T>(T) {
    const T* from = x.const_data_ptr<T>();
    T* to = scaled.mutable_data_ptr<T>();
    for_rows(x.size(0), width, [&]<int bytes>(RegisterBytes<bytes>, int64_t row) TERRACE_INLINE {
      for_vectors(width, [&](int64_t i, auto count) TERRACE_INLINE {
        const int64_t place = row * width + i;
        store_lanes(to + place, load_lanes<bytes>(from + place, count) * static_cast<Wide<T>>(factor[row]), count);
      });
    });
  });
  return scaled;
}

}  // namespace terrace::ops::cpu
