// Initial values of weights from the counter-based generator.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "terrace/base/random.h"

namespace terrace::ops {

// The part of a whole tensor that a tensor is: rows [offset, offset + size) of `dim`. global_size 0: all of it.
struct Slice {
  int64_t dim = 0;
  int64_t offset = 0;
  int64_t global_size = 0;
};

// Fills a contiguous CPU tensor with normal numbers of mean 0. Element n of the whole tensor is deviation *
// normal_quantile((w + 1/2) / 2^32), w being word n % 4 of Philox block n / 4 of the key, rounded once to the tensor's
// type: a function of (key, n) only, whatever the slice and the threads.
void fill_normal(const at::Tensor& out, PhiloxKey key, double deviation, const Slice& slice = {});

}  // namespace terrace::ops
