// Memory for packed words, from the allocator of tensors, which keeps it, and the threads that share it.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <cstdint>

namespace terrace::ops::cpu {

// The threads among which a product is divided: one, where it is itself a part of a team's work.
inline int64_t threads_of_product() { return at::in_parallel_region() ? 1 : at::get_num_threads(); }

inline at::Tensor empty_words(int64_t count) { return at::empty({count}, at::kInt); }

inline uint32_t* words_of(const at::Tensor& memory) {
  return reinterpret_cast<uint32_t*>(memory.mutable_data_ptr<int32_t>());
}

}  // namespace terrace::ops::cpu
