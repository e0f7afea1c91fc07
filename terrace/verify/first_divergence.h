// Where two runs of the same training part: the first step, segment and operation.
#pragma once

#include <optional>

#include "terrace/verify/trial.h"
#include "terrace/verify/verify.h"

namespace terrace::verify {

// Of fp32 tensors of one shape.
Difference difference_of(const at::Tensor& ours, const at::Tensor& other);
Difference difference_of(double ours, double other);

// None where nothing differs in a bit.
std::optional<Divergence> first_divergence(const config::Config& config, const Trial& ours, const Trial& plain);

}  // namespace terrace::verify
