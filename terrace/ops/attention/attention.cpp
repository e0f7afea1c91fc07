// Implements attention by torch's fused kernel, or by separate operations if probabilities are dropped.
#include "terrace/ops/attention/attention.h"

#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>

#include <cmath>
#include <limits>

namespace terrace::ops {
namespace {

// Multiplies the keys of a group with all of its queries without copies: [B, G, R, T, hd] with [B, G, 1, S, hd].
at::Tensor unfused(const Heads& heads, const at::Tensor& mask, const DropoutSite& site, std::string_view name,
                   Visibility visibility) {
  const int64_t batch = heads.queries.size(0), groups = heads.keys.size(1), length = heads.queries.size(2);
  const int64_t total = heads.keys.size(2), head_dim = heads.queries.size(3);
  const double scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
  const int64_t all_heads = heads.queries.size(1);
  const at::Tensor queries = heads.queries.reshape({batch, groups, all_heads / groups, length, head_dim});
  at::Tensor scores = at::matmul(queries.mul(scale), heads.keys.unsqueeze(2).transpose(-2, -1));  // [B, G, R, T, S]
  if (mask.defined() || visibility == Visibility::causal) {
    const at::Tensor seen = mask.defined() ? mask : causal_mask(length, total, scores.device());
    scores = scores.masked_fill(seen.unsqueeze(2).logical_not(), -std::numeric_limits<double>::infinity());
  }
  at::Tensor probabilities = at::softmax(scores, -1).view({batch, all_heads, length, total});  // [B, H, T, S]
  probabilities = dropout(probabilities, site, name).view(scores.sizes());
  return at::matmul(probabilities, heads.values.unsqueeze(2)).view({batch, all_heads, length, head_dim});
}

}  // namespace

at::Tensor attention(const Heads& heads, const at::Tensor& mask, const DropoutSite& site, std::string_view name,
                     Visibility visibility) {
  at::Tensor context;  // [B, H, T, hd]
  if (site.rate > 0.0) {
    context = unfused(heads, mask, site, name, visibility);
  } else {
    const bool grouped = heads.queries.size(1) != heads.keys.size(1);
    const bool causal = !mask.defined() && visibility == Visibility::causal;
    context = at::scaled_dot_product_attention(
        heads.queries, heads.keys, heads.values, mask.defined() ? std::optional<at::Tensor>(mask) : std::nullopt,
        /*dropout_p=*/0.0, /*is_causal=*/causal, /*scale=*/std::nullopt, /*enable_gqa=*/grouped);
  }
  // The fused CPU kernel writes [B, T, H, hd], so that the result is a view on the CPU.
  return context.transpose(1, 2).flatten(2);
}

at::Tensor document_mask(const at::Tensor& documents, Visibility visibility, int64_t window) {
  const at::Tensor same = documents.unsqueeze(2).eq(documents.unsqueeze(1));  // [B, T, T]
  const at::Tensor seen = visibility == Visibility::causal ? same.tril() : same;
  return (window > 0 ? seen.triu(1 - window) : seen).unsqueeze(1);
}

at::Tensor causal_mask(int64_t length, int64_t total, const at::Device& device, int64_t window) {
  const at::Tensor all = at::ones({1, 1, length, total}, at::TensorOptions().dtype(at::kBool).device(device));
  const at::Tensor seen = all.tril(total - length);
  return window > 0 ? seen.triu(total - length + 1 - window) : seen;
}

}  // namespace terrace::ops
