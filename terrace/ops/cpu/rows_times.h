// Products of a few rows with a weight, as in decoding: they read the weight once, in place, for every six rows (three
// with AVX2) of which the parts in use stay in the cache.
//
// Every element is sixteen sums over k in ascending order (of pairs in bf16), or eight with AVX2, which are then added
// in a fixed order. So a row of the result depends on its own row of x alone, whatever the number of rows, outputs and
// threads.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

#include "terrace/ops/cpu/vector_set.h"

namespace terrace::ops::cpu {

// out [rows, outputs] = x [rows, inputs] weight [outputs, inputs]^T + bias, all of one type. Strides are the elements
// between neighbouring rows.
struct RowsTimes {
  int64_t rows = 0, outputs = 0, inputs = 0;
  const void* x = nullptr;
  int64_t x_stride = 0;
  const void* weight = nullptr;
  int64_t weight_stride = 0;
  const void* bias = nullptr;  // null: none
  void* out = nullptr;
  int64_t out_stride = 0;
  void* active = nullptr;  // [rows, outputs] without gaps, gets gelu(out); null: not computed
};

// Whether this processor has the instructions for the type.
inline bool has_rows_times(c10::ScalarType type) { return vector_set(type) != VectorSet::none; }

// has_rows_times(type) must be true.
void rows_times(c10::ScalarType type, const RowsTimes& product);

}  // namespace terrace::ops::cpu
