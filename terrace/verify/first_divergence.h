// Finds where two runs of the same training diverge: the first step, segment and operation.
#pragma once

#include <optional>

#include "terrace/verify/small_run.h"
#include "terrace/verify/verify.h"

namespace terrace::verify {

// Compares two fp32 tensors of one shape, or two numbers.
Difference difference_of(const at::Tensor& ours, const at::Tensor& other);
Difference difference_of(double ours, double other);

// Empty if the two runs are equal bit for bit.
std::optional<Divergence> first_divergence(const config::Config& config, const SmallRun& ours, const SmallRun& plain);

}  // namespace terrace::verify
