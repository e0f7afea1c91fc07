// Wraps a model that is fed one sequence piece by piece, and keeps the keys and values of the tokens it has seen.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "terrace/models/model.h"

namespace terrace::generate {

class CachedModel {
 public:
  // The model must outlive this object. Throws UserError if the model's family does not generate text. Allocates the
  // cache for the longest sequence at once.
  explicit CachedModel(models::Model& model);
  ~CachedModel();

  // Runs T further tokens and returns their hidden states, [1, T, D]. At most capacity() tokens in all.
  at::Tensor hidden(std::span<const int64_t> tokens);

  // Runs the tokens in the same way and returns the fp32 logits of the token after the last one.
  std::vector<float> next_logits(std::span<const int64_t> tokens);

  int64_t size() const { return size_; }  // tokens seen
  int64_t capacity() const { return capacity_; }
  int64_t vocabulary() const { return vocabulary_; }

  // Forgets all but the first `length` tokens.
  void truncate(int64_t length);

 private:
  models::Model& model_;
  models::Generator& generator_;
  int64_t capacity_;
  int64_t vocabulary_;
  int64_t size_ = 0;
  std::unique_ptr<models::KeyValueCache> cache_;
};

}  // namespace terrace::generate
