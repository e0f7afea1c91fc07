// Attention within documents and sliding windows on GPUs, without a mask in memory.
#pragma once

#include "terrace/ops/attention/attention.h"

namespace terrace::ops {

// Whether flash_attention() computes heads of this kind: on an NVIDIA GPU, in bf16 and fp16, unless torch may not use
// its flash attention. On others attention() does, with document_mask() or causal_mask().
bool takes_flash(const at::Device& device, at::ScalarType type, int64_t head_dim);

// Attention by torch's flash attention (Dao, arXiv 2307.08691), as [B, T, H * hd]: a query sees the keys that
// `visibility` says, with `documents.starts` of these only those of its document, and with a `window` above 0, which
// goes with causal attention, of these only the last `window` up to its own. Backward adds the gradients of queries in
// any order.
at::Tensor flash_attention(const Heads& heads, const Documents& documents, Visibility visibility, int64_t window);

}  // namespace terrace::ops
