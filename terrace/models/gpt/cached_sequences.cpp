// Runs the pieces of the sequences through the model.
#include "terrace/models/gpt/cached_sequences.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/models/transformer/blocks.h"
#include "terrace/ops/attention/attention.h"

namespace terrace::models::gpt {
namespace {

// The cache for the heads that this rank has of each layer.
ops::KeyValueCache cache_for(const ModelConfig& config, Model& model, int64_t slots, int64_t length) {
  const std::vector<nn::Parameter*> parameters = model.parameters();
  const auto joint = std::ranges::find(parameters, "blocks.0.attention.qkv.weight", &nn::Parameter::name);
  TERRACE_CHECK(joint != parameters.end(), "the model is no GPT");
  const ops::HeadLayout heads{config.kv_heads, config.heads / config.kv_heads, config.head_dim};
  const at::Tensor& rows = (*joint)->value;  // [(H + 2G) hd, D]
  return {config.layers,   slots,         heads.part(rows.size(0)).groups, std::min(length, config.sequence),
          config.head_dim, rows.options()};
}

}  // namespace

CachedSequences::CachedSequences(const ModelConfig& config, Model& model, int64_t slots, int64_t length)
    : model_(model), cache_(cache_for(config, model, slots, length)) {}

// `tokens` are `length` further ones of each slot.
at::Tensor CachedSequences::run(std::vector<int64_t> slots, int64_t length, std::span<const int64_t> tokens) {
  const at::NoGradGuard no_grad;
  const auto num_slots = static_cast<int64_t>(slots.size());
  const at::Tensor ids = at::empty({num_slots, length}, at::kLong), positions = at::empty_like(ids);
  std::ranges::copy(tokens, ids.mutable_data_ptr<int64_t>());
  int64_t* position = positions.mutable_data_ptr<int64_t>();
  bool from_start = true;
  for (int64_t slot : slots) {
    const int64_t begin = cache_.size(slot);
    from_start = from_start && begin == 0;
    for (int64_t i = 0; i < length; ++i) *position++ = begin + i;
  }
  Batch batch{.samples = {}, .tensors = {{"tokens", ids.to(model_.device())}}};
  if (!from_start) batch.tensors["positions"] = positions.to(model_.device());
  cache_.select(std::move(slots));
  Pass pass;
  ContinuedSequences continued(cache_);
  pass.extension = &continued;
  at::Tensor hidden = model_.forward(0, model_.num_units() - 1, {}, batch, pass).front();  // [B, T, D]
  cache_.advance(length);
  return hidden;
}

at::Tensor CachedSequences::logits(const at::Tensor& hidden) {
  const at::NoGradGuard no_grad;
  return model_.outputs(model_.num_units() - 1, {hidden}, {}, {}).at("logits").to(at::kCPU).contiguous();
}

at::Tensor CachedSequences::hidden(int64_t slot, std::span<const int64_t> tokens) {
  TERRACE_CHECK(!tokens.empty(), "no tokens for slot {}", slot);
  return run({slot}, static_cast<int64_t>(tokens.size()), tokens);
}

std::vector<float> CachedSequences::next_logits(int64_t slot, std::span<const int64_t> tokens) {
  const at::Tensor all = hidden(slot, tokens);
  // Computes the logits of the last position only: those of a whole prompt would take gigabytes.
  const at::Tensor last = logits(all.narrow(1, all.size(1) - 1, 1));
  const float* values = last.const_data_ptr<float>();
  return {values, values + last.numel()};
}

at::Tensor CachedSequences::next_logits(std::span<const int64_t> slots, std::span<const int64_t> tokens) {
  TERRACE_CHECK(!slots.empty() && slots.size() == tokens.size(), "{} tokens for {} slots", tokens.size(), slots.size());
  return logits(run({slots.begin(), slots.end()}, 1, tokens)).squeeze(1);
}

void CachedSequences::truncate(int64_t slot, int64_t length) {
  TERRACE_CHECK(length >= 0 && length <= size(slot), "cannot keep {} of {} tokens", length, size(slot));
  cache_.truncate(slot, length);
}

}  // namespace terrace::models::gpt
