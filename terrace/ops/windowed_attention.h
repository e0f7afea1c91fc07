// Attention within a sliding window on GPUs, without a mask in memory.
#pragma once

#include "terrace/ops/attention.h"

namespace terrace::ops {

// Whether windowed_attention() computes heads of this kind: on an NVIDIA GPU, in bf16 and fp16, unless torch may not
// use its flash attention. On others attention() with causal_mask() does.
bool takes_windows(const at::Device& device, at::ScalarType type, int64_t head_dim);

// Causal attention of which a query sees the last `window` keys up to its own, by torch's flash attention (Dao, arXiv
// 2307.08691), as [B, T, H * hd]. Backward adds the gradients of queries in any order.
at::Tensor windowed_attention(const Heads& heads, int64_t window);

}  // namespace terrace::ops
