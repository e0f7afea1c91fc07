// Holds the keys and values of the tokens generated so far, as one pair of tensors for each layer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace terrace::models {

class KeyValueCache {
 public:
  // Room for `length` tokens of each of `batch` sequences.
  KeyValueCache(int64_t layers, int64_t batch, int64_t groups, int64_t length, int64_t head_dim,
                const at::TensorOptions& options);

  // The number of tokens that `layer` holds, which is the position of the next token until the layer appends it.
  int64_t size(int64_t layer) const { return sizes_.at(layer); }
  int64_t capacity() const { return capacity_; }

  // Appends keys and values [B, G, T, hd] of a layer and returns views of all of them, [B, G, size, hd]. Throws
  // UserError if there is no room for T more tokens.
  std::pair<at::Tensor, at::Tensor> append(int64_t layer, const at::Tensor& keys, const at::Tensor& values);

  // Forgets all but the first `length` tokens of every layer.
  void truncate(int64_t length);

 private:
  int64_t capacity_;
  std::vector<int64_t> sizes_;
  std::vector<at::Tensor> keys_;  // [B, G, capacity, hd]
  std::vector<at::Tensor> values_;
};

}  // namespace terrace::models
