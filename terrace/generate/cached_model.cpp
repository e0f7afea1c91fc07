// Feeds a model with a sequence piece by piece.
#include "terrace/generate/cached_model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/models/key_value_cache.h"

namespace terrace::generate {

CachedModel::CachedModel(models::Model& model)
    : model_(model),
      generator_(models::generator_of(model)),
      capacity_(generator_.longest_sequence()),
      vocabulary_(generator_.vocabulary()),
      cache_(generator_.make_cache(1, capacity_)) {}

CachedModel::~CachedModel() = default;

at::Tensor CachedModel::hidden(std::span<const int64_t> tokens) {
  const int64_t length = static_cast<int64_t>(tokens.size());
  TERRACE_CHECK(length > 0 && size_ + length <= capacity_, "{} tokens after {} of {}", length, size_, capacity_);
  const at::NoGradGuard no_grad;
  at::Tensor ids = at::empty({1, length}, at::kLong);
  std::ranges::copy(tokens, ids.mutable_data_ptr<int64_t>());
  const models::Batch batch{.samples = {}, .tensors = {{"tokens", ids.to(model_.device())}}};
  models::Pass pass;
  pass.cache = cache_.get();
  const at::Tensor hidden = model_.forward(0, model_.num_units() - 1, {}, batch, pass).front();  // [1, T, D]
  size_ += length;
  return hidden;
}

std::vector<float> CachedModel::next_logits(std::span<const int64_t> tokens) {
  const at::Tensor all = hidden(tokens);
  const at::NoGradGuard no_grad;
  // Computes the logits of the last position only: those of a whole prompt would take gigabytes.
  const at::Tensor logits =
      generator_.logits(all.narrow(1, all.size(1) - 1, 1), models::Pass{}).to(at::kCPU).contiguous();
  const float* values = logits.const_data_ptr<float>();
  return {values, values + logits.numel()};
}

void CachedModel::truncate(int64_t length) {
  TERRACE_CHECK(length >= 0 && length <= size_, "cannot keep {} of {} tokens", length, size_);
  cache_->truncate(length);
  size_ = length;
}

}  // namespace terrace::generate
