// Replaces the attention kernels on processors that are not x86-64.
#include "terrace/ops/attention_kernels.h"

namespace terrace::ops {

const AttentionKernels* attention_kernels(const at::Device&, at::ScalarType, const HeadLayout&) { return nullptr; }

}  // namespace terrace::ops
