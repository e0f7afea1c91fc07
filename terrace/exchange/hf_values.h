// The values of a tensor of transformers in the parameter that holds them.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/models/exchange_of_family.h"

namespace terrace::exchange {

// Returns the values as a tensor of the shape theirs.shape; it may share the parameter's memory.
at::Tensor values_in(const at::Tensor& parameter, const models::HfTensor& theirs);

// Writes the values, of any type and of that shape, to the parameter.
void set_values_in(const at::Tensor& parameter, const models::HfTensor& theirs, const at::Tensor& values);

}  // namespace terrace::exchange
