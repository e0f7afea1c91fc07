// Replaces attention in decoding on processors that are not x86-64.
#include "terrace/base/error.h"
#include "terrace/ops/cpu/decode_attention.h"

namespace terrace::ops::cpu {

bool has_decode_attention(c10::ScalarType) { return false; }

void decode_attention(const Heads&, const CachedKeys&, const at::Tensor& context) {
  TERRACE_CHECK(false, "this processor has no attention of {}", c10::toString(context.scalar_type()));
}

}  // namespace terrace::ops::cpu
