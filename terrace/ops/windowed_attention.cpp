// Calls the operation behind torch's scaled dot-product attention, which has windows where that function has none.
#include "terrace/ops/windowed_attention.h"

#include <ATen/Context.h>
#include <ATen/ops/_flash_attention_forward.h>

#include <optional>

namespace terrace::ops {

bool takes_windows(const at::Device& device, at::ScalarType type, int64_t head_dim) {
  const at::Context& torch = at::globalContext();
  const bool is_narrow = type == at::kBFloat16 || type == at::kHalf;
  // Torch's flash attention for AMD may be a version that ignores windows.
  return device.is_cuda() && is_narrow && head_dim <= 256 && head_dim % 8 == 0 && torch.userEnabledFlashSDP() &&
         !at::Context::hasROCM();
}

at::Tensor windowed_attention(const Heads& heads, int64_t window) {
  const int64_t length = heads.queries.size(2);
  // The operation takes [B, T, H, hd], and counts the keys before the query's own.
  const at::Tensor context = std::get<0>(at::_flash_attention_forward(
      heads.queries.transpose(1, 2), heads.keys.transpose(1, 2), heads.values.transpose(1, 2),
      /*cum_seq_q=*/std::nullopt, /*cum_seq_k=*/std::nullopt, /*max_q=*/length, /*max_k=*/length, /*dropout_p=*/0.0,
      /*is_causal=*/true, /*return_debug_mask=*/false, /*scale=*/std::optional<double>(),
      /*window_size_left=*/window - 1, /*window_size_right=*/0));
  return context.flatten(2);
}

}  // namespace terrace::ops
