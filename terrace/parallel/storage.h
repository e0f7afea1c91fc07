// Releases the memory of a tensor and allocates it again while views of the tensor stay valid.
#pragma once

#include <ATen/core/Tensor.h>

namespace terrace::parallel {

// Afterwards no element of a tensor on the same storage may be accessed until take_storage().
void release_storage(const at::Tensor& tensor);
// Allocates memory for a released tensor; its elements are undefined. Does nothing if the tensor has memory.
void take_storage(const at::Tensor& tensor);
bool has_storage(const at::Tensor& tensor);

}  // namespace terrace::parallel
