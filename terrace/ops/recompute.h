// Trades memory for time: a segment of the model is run again in backward instead of keeping what it saves (Chen et
// al., arXiv 1604.06174).
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace terrace::ops {

// segment(input), keeping only `input` until backward, which runs the segment a second time and differentiates that.
// The results are the same to the last bit, as nothing in a segment depends on when it runs. Parameters used inside
// accumulate their gradients as usual. Where autograd is off, or no input is part of its graph, it is a plain
// call.
std::vector<at::Tensor> recompute(const std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>& segment,
                                  const std::vector<at::Tensor>& input);
at::Tensor recompute(const std::function<at::Tensor(const at::Tensor&)>& segment, const at::Tensor& input);

}  // namespace terrace::ops
