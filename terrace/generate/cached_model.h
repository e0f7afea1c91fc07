// Wraps a model that is fed several sequences piece by piece, and keeps the keys and values of their tokens.
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
  // Room for `slots` sequences of up to `length` tokens, at most the model's longest sequence. The model must outlive
  // this object. Throws UserError if the model's family does not generate text.
  CachedModel(models::Model& model, int64_t slots, int64_t length);
  ~CachedModel();

  // Runs T further tokens of the sequence in a slot and returns their hidden states, [1, T, D]. At most capacity()
  // tokens in all.
  at::Tensor hidden(int64_t slot, std::span<const int64_t> tokens);

  // Runs the tokens in the same way and returns the fp32 logits of the token after the last one.
  std::vector<float> next_logits(int64_t slot, std::span<const int64_t> tokens);

  // Runs one further token of each of several sequences and returns the logits of the tokens after them, [sequences,
  // vocabulary] in fp32 on the CPU. Those of a sequence do not depend on which other sequences are run with it.
  at::Tensor next_logits(std::span<const int64_t> slots, std::span<const int64_t> tokens);

  int64_t size(int64_t slot) const;  // tokens seen
  int64_t capacity() const { return capacity_; }

  // Forgets all but the first `length` tokens of a slot, or copies them to another slot.
  void truncate(int64_t slot, int64_t length);
  void copy(int64_t from, int64_t to, int64_t length);

 private:
  at::Tensor run(std::vector<int64_t> slots, int64_t length, std::span<const int64_t> tokens);
  at::Tensor logits(const at::Tensor& hidden);

  models::Model& model_;
  models::Generator& generator_;
  int64_t capacity_;
  std::unique_ptr<models::KeyValueCache> cache_;
};

}  // namespace terrace::generate
