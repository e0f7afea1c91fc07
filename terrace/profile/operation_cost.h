// What torch's operations cost, from the shapes of what goes in and out.
#pragma once

#include <ATen/record_function.h>

#include <string>

#include "terrace/ops/record.h"

namespace terrace::profile {

// FLOPs of matrix products (2 a multiply-add) and of attention's fused kernels, 0 for all else; bytes of the tensors
// that go in. Attention counts the pairs of query and key that a causal mask lets through: with P of them, 4 P a
// feature and head forward and 10 P backward (its five products). Views, and operations that only make room, move
// nothing. To be called in a start callback.
ops::OperationCost cost_before(const at::RecordFunction& operation);

// Bytes of what came out, to be added; in an end callback. Results that were given to be written into (out=) are among
// the inputs already.
double bytes_after(const at::RecordFunction& operation);

// The shapes of the tensors that go in: "[8, 64] [64, 256]".
std::string shapes_of(const at::RecordFunction& operation);

}  // namespace terrace::profile
