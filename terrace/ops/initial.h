// Initial values of weights from the counter-based generator.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "terrace/base/random.h"

namespace terrace::ops {

// Fills a contiguous CPU tensor with normal numbers of mean 0, the elements `first`, first + 1, .. of a whole
// parameter. Element n of it is deviation * normal_quantile((w + 1/2) / 2^32), w being word n % 4 of Philox block n / 4
// of the key, rounded once to the tensor's type: a function of (key, n) only, whatever the part and the threads.
void fill_normal(const at::Tensor& out, PhiloxKey key, double deviation, int64_t first = 0);

}  // namespace terrace::ops
