// Computes what torch's operations cost from the shapes of their inputs and outputs.
#pragma once

#include <ATen/record_function.h>

#include <string>

#include "terrace/profile/record.h"

namespace terrace::profile {

// FLOPs of matrix products (2 a multiply-add) and of the fused attention kernels, 0 for all other operations; bytes of
// the input tensors. Attention counts the P pairs of query and key that a causal mask lets through: 4 P a feature and
// head forward, and 10 P backward (its five products). Views, and operations that only allocate, move no bytes. To be
// called in a start callback.
OperationCost cost_before(const at::RecordFunction& operation);

// Bytes of the outputs, to be added to those of the inputs. To be called in an end callback. Outputs that the caller
// gave (out=) count as inputs already.
double bytes_after(const at::RecordFunction& operation);

// The shapes of the input tensors: "[8, 64] [64, 256]".
std::string shapes_of(const at::RecordFunction& operation);

}  // namespace terrace::profile
