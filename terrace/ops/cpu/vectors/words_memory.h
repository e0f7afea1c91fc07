// Memory for packed words, from the allocator of tensors, which keeps it.
#pragma once

#include <ATen/ops/empty.h>

#include <cstdint>

namespace terrace::ops::cpu {

inline at::Tensor empty_words(int64_t count) { return at::empty({count}, at::kInt); }

inline uint32_t* words_of(const at::Tensor& memory) {
  return reinterpret_cast<uint32_t*>(memory.mutable_data_ptr<int32_t>());
}

}  // namespace terrace::ops::cpu
