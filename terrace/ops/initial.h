// Computes the initial values of weights with the counter-based generator.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "terrace/base/random.h"

namespace terrace::ops {

// Fills a contiguous CPU tensor with the elements `first`, first + 1, .. of a whole parameter, which are normal with
// mean 0. Element n is deviation * normal_quantile((w + 1/2) / 2^32), where w is word n % 4 of Philox block n / 4 under
// the key, rounded once to the tensor's type. So it depends only on (key, n), not on the range or the number of
// threads.
void fill_normal(const at::Tensor& out, PhiloxKey key, double deviation, int64_t first = 0);

// These fill a tensor in the same way from other distributions. With u = (w + 1/2) / 2^32 element n is low + (high -
// low) u, or for a normal distribution of mean 0 that is cut at `cut` of its standard deviations on both sides,
// deviation * normal_quantile(a + (1 - 2 a) u) with a the probability below -cut. `deviation` is that of the
// distribution before it is cut.
void fill_uniform(const at::Tensor& out, PhiloxKey key, double low, double high, int64_t first = 0);
void fill_truncated_normal(const at::Tensor& out, PhiloxKey key, double deviation, double cut, int64_t first = 0);

}  // namespace terrace::ops
