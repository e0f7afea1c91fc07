// Feeds a model with sequences piece by piece.
#include "terrace/generate/cached_model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/models/key_value_cache.h"

namespace terrace::generate {

CachedModel::CachedModel(models::Model& model, int64_t slots, int64_t length)
    : model_(model),
      generator_(models::generator_of(model)),
      capacity_(std::min(length, generator_.longest_sequence())),
      cache_(generator_.make_cache(slots, capacity_)) {}

CachedModel::~CachedModel() = default;

// `tokens` are `length` further ones of each slot.
at::Tensor CachedModel::run(std::vector<int64_t> slots, int64_t length, std::span<const int64_t> tokens) {
  const at::NoGradGuard no_grad;
  const auto num_slots = static_cast<int64_t>(slots.size());
  const at::Tensor ids = at::empty({num_slots, length}, at::kLong), positions = at::empty_like(ids);
  std::ranges::copy(tokens, ids.mutable_data_ptr<int64_t>());
  int64_t* position = positions.mutable_data_ptr<int64_t>();
  bool from_start = true;
  for (int64_t slot : slots) {
    const int64_t begin = cache_->size(slot);
    from_start = from_start && begin == 0;
    for (int64_t i = 0; i < length; ++i) *position++ = begin + i;
  }
  models::Batch batch{.samples = {}, .tensors = {{"tokens", ids.to(model_.device())}}};
  if (!from_start) batch.tensors["positions"] = positions.to(model_.device());
  cache_->select(std::move(slots));
  models::Pass pass;
  pass.cache = cache_.get();
  at::Tensor hidden = model_.forward(0, model_.num_units() - 1, {}, batch, pass).front();  // [B, T, D]
  cache_->advance(length);
  return hidden;
}

at::Tensor CachedModel::logits(const at::Tensor& hidden) {
  const at::NoGradGuard no_grad;
  return generator_.logits(hidden, models::Pass{}).to(at::kCPU).contiguous();
}

at::Tensor CachedModel::hidden(int64_t slot, std::span<const int64_t> tokens) {
  TERRACE_CHECK(!tokens.empty(), "no tokens for slot {}", slot);
  return run({slot}, static_cast<int64_t>(tokens.size()), tokens);
}

std::vector<float> CachedModel::next_logits(int64_t slot, std::span<const int64_t> tokens) {
  const at::Tensor all = hidden(slot, tokens);
  // Computes the logits of the last position only: those of a whole prompt would take gigabytes.
  const at::Tensor last = logits(all.narrow(1, all.size(1) - 1, 1));
  const float* values = last.const_data_ptr<float>();
  return {values, values + last.numel()};
}

at::Tensor CachedModel::next_logits(std::span<const int64_t> slots, std::span<const int64_t> tokens) {
  TERRACE_CHECK(!slots.empty() && slots.size() == tokens.size(), "{} tokens for {} slots", tokens.size(), slots.size());
  return logits(run({slots.begin(), slots.end()}, 1, tokens)).squeeze(1);
}

int64_t CachedModel::size(int64_t slot) const { return cache_->size(slot); }

void CachedModel::truncate(int64_t slot, int64_t length) {
  TERRACE_CHECK(length >= 0 && length <= size(slot), "cannot keep {} of {} tokens", length, size(slot));
  cache_->truncate(slot, length);
}

void CachedModel::copy(int64_t from, int64_t to, int64_t length) { cache_->copy(from, to, length); }

}  // namespace terrace::generate
