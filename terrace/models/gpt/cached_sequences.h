// Feeds a GPT with several sequences piece by piece, and keeps the keys and values of their tokens.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "terrace/models/gpt/settings/config.h"
#include "terrace/models/text_of_family.h"
#include "terrace/ops/attention/key_value_cache.h"

namespace terrace::models::gpt {

class CachedSequences : public TextSequences {
 public:
  // Makes room as TextOfFamily::sequences() does. `model` is a GPT of the configuration, which may be cut over tensor
  // ranks.
  CachedSequences(const ModelConfig& config, Model& model, int64_t slots, int64_t length);

  // Runs T further tokens of the sequence in a slot and returns their hidden states, [1, T, D].
  at::Tensor hidden(int64_t slot, std::span<const int64_t> tokens);

  std::vector<float> next_logits(int64_t slot, std::span<const int64_t> tokens) override;
  at::Tensor next_logits(std::span<const int64_t> slots, std::span<const int64_t> tokens) override;
  int64_t size(int64_t slot) const override { return cache_.size(slot); }
  void truncate(int64_t slot, int64_t length) override;
  void copy(int64_t from, int64_t to, int64_t length) override { cache_.copy(from, to, length); }

 private:
  at::Tensor run(std::vector<int64_t> slots, int64_t length, std::span<const int64_t> tokens);
  at::Tensor logits(const at::Tensor& hidden);

  Model& model_;
  ops::KeyValueCache cache_;
};

}  // namespace terrace::models::gpt
