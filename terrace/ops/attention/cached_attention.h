// Attention in decoding: one new position of each of several sequences, over keys and values that are kept.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "terrace/ops/attention/attention.h"

namespace terrace::ops {

// The memory of one layer for several sequences, of which those in `slots` are decoded. A sequence has its own number
// of keys.
struct CachedKeys {
  at::Tensor keys, values;     // [slots in all, G, capacity, hd], contiguous
  std::vector<int64_t> slots;  // [B]: different ones
  std::vector<int64_t> sizes;  // [B]: the number of keys before this position
  int64_t window = 0;          // above 0: only the last so many keys are seen, the new one included

  // The first key that a sequence with `size` keys, the new one included, sees.
  int64_t first_seen(int64_t size) const { return window > 0 ? std::max<int64_t>(0, size - window) : 0; }
};

// Appends the keys and values of heads with T = 1 to the cache and returns softmax(Q K^T / sqrt(hd)) V over all of them
// as [B, 1, H * hd]. The result of a sequence does not depend on the others. No gradients.
at::Tensor cached_attention(const Heads& heads, const CachedKeys& cache);

}  // namespace terrace::ops
