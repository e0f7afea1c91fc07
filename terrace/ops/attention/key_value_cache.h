// Holds the keys and values of the tokens of several sequences, as one pair of tensors for each layer. A sequence has a
// slot, which is an index, and its own length.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "terrace/ops/attention/cached_attention.h"

namespace terrace::ops {

class KeyValueCache {
 public:
  // Room for `length` tokens in each of `slots`; `groups` are those of this rank.
  KeyValueCache(int64_t layers, int64_t slots, int64_t groups, int64_t length, int64_t head_dim,
                const at::TensorOptions& options);

  // Chooses the slots of the next passes, in the order of the sequences in their batches. Every layer must then append
  // the same number of tokens to each of them, which advance() counts after the pass.
  void select(std::vector<int64_t> slots) { selected_ = std::move(slots); }
  void advance(int64_t tokens);

  // The number of tokens in a slot, which is the position of its next token.
  int64_t size(int64_t slot) const { return sizes_.at(slot); }
  int64_t capacity() const { return capacity_; }

  // Appends keys and values [1, G, T, hd] of a layer to the only selected slot, and returns views of all of them,
  // [1, G, size + T, hd]. Throws UserError if there is no room for them, as selected() does.
  std::pair<at::Tensor, at::Tensor> append(int64_t layer, const at::Tensor& keys, const at::Tensor& values);

  // The keys and values that cached_attention() reads, and appends to, for one token of each selected slot.
  CachedKeys selected(int64_t layer) const;

  // Forgets all but the first `length` tokens of a slot.
  void truncate(int64_t slot, int64_t length);
  // Makes the first `length` tokens of slot `from` the contents of slot `to`.
  void copy(int64_t from, int64_t to, int64_t length);

 private:
  void check_room(int64_t slot, int64_t tokens) const;

  int64_t capacity_;
  std::vector<int64_t> sizes_, selected_;
  std::vector<at::Tensor> keys_;  // [slots, G, capacity, hd]
  std::vector<at::Tensor> values_;
};

}  // namespace terrace::ops
