// Appends to, copies and truncates the sequences of the key-value cache.
#include "terrace/ops/attention/key_value_cache.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "terrace/base/error.h"

namespace terrace::ops {

KeyValueCache::KeyValueCache(int64_t layers, int64_t slots, int64_t groups, int64_t length, int64_t head_dim,
                             const at::TensorOptions& options)
    : capacity_(length), sizes_(slots, 0) {
  for (int64_t layer = 0; layer < layers; ++layer) {
    keys_.push_back(at::empty({slots, groups, length, head_dim}, options));
    values_.push_back(at::empty({slots, groups, length, head_dim}, options));
  }
}

void KeyValueCache::check_room(int64_t slot, int64_t tokens) const {
  if (size(slot) + tokens <= capacity_) return;
  throw UserError::of("{} tokens do not fit a key-value cache of {}; make it longer or generate less",
                      size(slot) + tokens, capacity_);
}

void KeyValueCache::advance(int64_t tokens) {
  for (int64_t slot : selected_) sizes_[slot] += tokens;
}

std::pair<at::Tensor, at::Tensor> KeyValueCache::append(int64_t layer, const at::Tensor& keys,
                                                        const at::Tensor& values) {
  TERRACE_CHECK(selected_.size() == 1 && keys.size(0) == 1, "keys of {} sequences for {} slots", keys.size(0),
                selected_.size());
  const int64_t slot = selected_.front(), before = size(slot), added = keys.size(2);
  check_room(slot, added);
  const auto own = [&](const std::vector<at::Tensor>& layers) {
    return layers[layer].narrow(0, slot, 1).narrow(2, 0, before + added);
  };
  own(keys_).narrow(2, before, added).copy_(keys);
  own(values_).narrow(2, before, added).copy_(values);
  return {own(keys_), own(values_)};
}

CachedKeys KeyValueCache::selected(int64_t layer) const {
  CachedKeys cache{.keys = keys_.at(layer), .values = values_.at(layer), .slots = selected_, .sizes = {}};
  for (int64_t slot : selected_) {
    check_room(slot, 1);
    cache.sizes.push_back(size(slot));
  }
  return cache;
}

void KeyValueCache::truncate(int64_t slot, int64_t length) { sizes_.at(slot) = std::min(size(slot), length); }

void KeyValueCache::copy(int64_t from, int64_t to, int64_t length) {
  TERRACE_CHECK(length <= size(from), "{} of {} tokens", length, size(from));
  for (const std::vector<at::Tensor>& layers : {keys_, values_}) {
    for (const at::Tensor& layer : layers) {
      layer.select(0, to).narrow(1, 0, length).copy_(layer.select(0, from).narrow(1, 0, length));
    }
  }
  sizes_.at(to) = length;
}

}  // namespace terrace::ops
