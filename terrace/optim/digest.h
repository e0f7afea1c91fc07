// Digests of tensors' bits, by which ranks compare what they hold without sending it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace terrace::optim {

// A digest of the bits of a contiguous tensor: the sum modulo 2^64 of a value for each word of eight bytes, which is a
// one-to-one function of the word for each place. So any change within one word changes the digest, and other changes
// do but for one in about 2^64; the order of the additions, and so the number of threads, does not matter. Bytes after
// the last whole word count as a word that is filled up with zeros. The digest is the same on all devices; of a tensor
// on a GPU it waits for the GPU.
uint64_t digest_of(const at::Tensor& tensor);

// Computes the same digest by operations of torch, for tensors on any device.
uint64_t digest_by_operations(const at::Tensor& tensor);

// A digest of a list of which `digest` is that of the beginning and `next` what follows; the order counts.
uint64_t followed_by(uint64_t digest, uint64_t next);

}  // namespace terrace::optim
