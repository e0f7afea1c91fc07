// Appends to and truncates the key-value cache.
#include "terrace/models/key_value_cache.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "terrace/base/error.h"

namespace terrace::models {

KeyValueCache::KeyValueCache(int64_t layers, int64_t batch, int64_t groups, int64_t length, int64_t head_dim,
                             const at::TensorOptions& options)
    : capacity_(length), sizes_(layers, 0) {
  for (int64_t layer = 0; layer < layers; ++layer) {
    keys_.push_back(at::empty({batch, groups, length, head_dim}, options));
    values_.push_back(at::empty({batch, groups, length, head_dim}, options));
  }
}

std::pair<at::Tensor, at::Tensor> KeyValueCache::append(int64_t layer, const at::Tensor& keys,
                                                        const at::Tensor& values) {
  int64_t& size = sizes_.at(layer);
  const int64_t added = keys.size(2);
  if (size + added > capacity_) {
    throw UserError::of("{} tokens do not fit a key-value cache of {}; make it longer or generate less", size + added,
                        capacity_);
  }
  keys_[layer].narrow(2, size, added).copy_(keys);
  values_[layer].narrow(2, size, added).copy_(values);
  size += added;
  return {keys_[layer].narrow(2, 0, size), values_[layer].narrow(2, 0, size)};
}

void KeyValueCache::truncate(int64_t length) {
  for (int64_t& size : sizes_) size = std::min(size, length);
}

}  // namespace terrace::models
