// Memory of a tensor that is given back and taken again while views of it stay as they are.
#pragma once

#include <ATen/core/Tensor.h>

namespace terrace::parallel {

// Afterwards no element of the tensor, or of any other tensor on the same storage, may be touched.
void release_storage(const at::Tensor& tensor);
// Takes memory for a released tensor; its elements are undefined. Nothing where it has memory.
void take_storage(const at::Tensor& tensor);
bool has_storage(const at::Tensor& tensor);

}  // namespace terrace::parallel
