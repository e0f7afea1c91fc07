// Chooses how self-attention is computed.
#include "terrace/ops/attention/self_attention.h"

#include <tuple>

#include "terrace/base/error.h"
#include "terrace/ops/attention/cached_attention.h"

namespace terrace::ops {
namespace {

at::Tensor joint(const at::Tensor& joint, const SelfAttention& attention, const TokenPlaces& places) {
  return joint_attention(joint, attention.layout, places.table, places.positions, places.documents, attention.kernels,
                         attention.visibility, attention.window);
}

// The mask of `length` queries at the end of `total` keys; undefined where the visibility alone says what they see.
at::Tensor mask_of(const SelfAttention& attention, const Documents& documents, int64_t length, int64_t total,
                   const at::Device& device) {
  if (documents.numbers.defined()) return document_mask(documents.numbers, attention.visibility, attention.window);
  const bool continues = total != length, sees_a_window = attention.window > 0 && total > attention.window;
  return continues || sees_a_window ? causal_mask(length, total, device, attention.window) : at::Tensor();
}

}  // namespace

at::Tensor self_attention(const at::Tensor& projection, const SelfAttention& attention, const TokenPlaces& places,
                          const DropoutSite& site, std::string_view name, const EarlierTokens& earlier) {
  KeyValueCache* const cache = earlier.cache;
  if (cache == nullptr && site.rate == 0.0) return joint(projection, attention, places);
  Heads heads = split_heads(projection, attention.layout, places.table, places.positions);
  const int64_t length = projection.size(1);
  if (cache != nullptr) {
    TERRACE_CHECK(!places.documents.numbers.defined(), "a key-value cache holds one document a sequence");
    if (length == 1) {
      CachedKeys kept = cache->selected(earlier.layer);
      kept.window = attention.window;
      return cached_attention(heads, kept);
    }
    std::tie(heads.keys, heads.values) = cache->append(earlier.layer, heads.keys, heads.values);
    // A prompt that begins its sequence sees itself alone, as in training.
    if (heads.keys.size(2) == length) return joint(projection, attention, places);
  }
  const at::Tensor mask = mask_of(attention, places.documents, length, heads.keys.size(2), projection.device());
  return ops::attention(heads, mask, site, name, attention.visibility);
}

}  // namespace terrace::ops
