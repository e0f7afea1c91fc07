// Computes products of a few rows with a weight, as many outputs at a time as a vector has lanes.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "terrace/ops/cpu/rows_times.h"
#include "terrace/ops/cpu/vectors/dot.h"
#include "terrace/ops/cpu/vectors/gelu.h"
#include "terrace/ops/cpu/vectors/lockstep.h"

namespace terrace::ops::cpu::TERRACE_VECTOR_SET {

// Rounds the sums [rows, lanes] of the outputs from `first` on, adds the bias and stores them, with their GELU where it
// is asked for.
template <typename T>
TERRACE_VECTOR_CODE void finish_outputs(const RowsTimes& p, int64_t first, const float* sums) {
  const int64_t count = p.outputs - first;
  const T* bias = static_cast<const T*>(p.bias);
  for (int64_t row = 0; row < p.rows; ++row) {
    OneVector value = load(sums + row * lanes);
    if (bias) value = value + load_wide(bias + first, count);
    store_narrow(static_cast<T*>(p.out) + row * p.out_stride + first, value, count);
    if (!p.active) continue;
    store_narrow(static_cast<T*>(p.active) + row * p.outputs + first, gelu<T>(rounded<T>(value)), count);
  }
}

template <typename T>
void multiply_rows(const RowsTimes& p) {
  const int64_t groups = (p.rows + dot_rows - 1) / dot_rows, blocks = (p.outputs + lanes - 1) / lanes;
  at::parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> sums(static_cast<size_t>(p.rows * lanes));
    for (int64_t first = begin * lanes; first < std::min(p.outputs, end * lanes); first += lanes) {
      for (int64_t o = first; o < std::min(p.outputs, first + lanes); o += dot_outputs) {
        const T* weight = static_cast<const T*>(p.weight) + o * p.weight_stride;
        for (int64_t group = 0; group < groups; ++group) {
          const int64_t row = group * p.rows / groups, rows = (group + 1) * p.rows / groups - row;
          dot_tile_of<T>(rows)(static_cast<const T*>(p.x) + row * p.x_stride, p.x_stride, weight, p.weight_stride,
                               p.outputs - o, p.inputs, group == 0, sums.data() + row * lanes + o - first, lanes);
        }
      }
      finish_outputs<T>(p, first, sums.data());
    }
  });
}

}  // namespace terrace::ops::cpu::TERRACE_VECTOR_SET
