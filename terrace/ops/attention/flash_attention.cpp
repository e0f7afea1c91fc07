// Calls the operation behind torch's scaled dot-product attention, which has windows and sequences of any lengths where
// that function has neither.
#include "terrace/ops/attention/flash_attention.h"

#include <ATen/Context.h>
#include <ATen/ops/_flash_attention_forward.h>

#include <optional>

#include "terrace/base/operation_limits.h"

namespace terrace::ops {

bool takes_flash(const at::Device& device, at::ScalarType type, int64_t head_dim) {
  const at::Context& torch = at::globalContext();
  const bool is_narrow = type == at::kBFloat16 || type == at::kHalf;
  // Torch's flash attention for AMD may be a version that ignores windows.
  return device.is_cuda() && is_narrow && flash_takes_heads(head_dim) && torch.userEnabledFlashSDP() &&
         !at::Context::hasROCM();
}

at::Tensor flash_attention(const Heads& heads, const Documents& documents, Visibility visibility, int64_t window) {
  const int64_t batch = heads.queries.size(0), length = heads.queries.size(2);
  const bool has_documents = documents.starts.defined();
  const auto starts = has_documents ? std::optional<at::Tensor>(documents.starts) : std::nullopt;
  const int64_t longest = has_documents ? documents.longest : length;
  // The operation takes [B, T, H, hd] or, with starts, [B * T, H, hd].
  const auto taken = [&](const at::Tensor& of_heads) {
    const at::Tensor by_token = of_heads.transpose(1, 2);
    return has_documents ? by_token.flatten(0, 1) : by_token;
  };
  // The operation counts the keys before the query's own.
  std::optional<int64_t> before, after;
  if (window > 0) {
    before = window - 1;
    after = 0;
  }
  const at::Tensor context = std::get<0>(at::_flash_attention_forward(
      taken(heads.queries), taken(heads.keys), taken(heads.values), starts, starts, /*max_q=*/longest,
      /*max_k=*/longest, /*dropout_p=*/0.0, /*is_causal=*/visibility == Visibility::causal,
      /*return_debug_mask=*/false, /*scale=*/std::optional<double>(), before, after));
  return context.reshape({batch, length, -1});
}

}  // namespace terrace::ops
