// Trades time for memory: backward calls a function a second time instead of keeping the activations of the first call
// (Chen et al., arXiv 1604.06174).
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace terrace::ops {

// Returns function(input) and keeps only `input` until backward, which calls `function` again and differentiates that
// call. Results and gradients have the same bits as without recompute if the result of `function` does not depend on
// when it is called. Parameters that `function` uses accumulate their gradients as usual. If autograd is off, or if no
// input requires a gradient, recompute() is a plain call.
std::vector<at::Tensor> recompute(
    const std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>& function,
    const std::vector<at::Tensor>& input);
at::Tensor recompute(const std::function<at::Tensor(const at::Tensor&)>& function, const at::Tensor& input);

}  // namespace terrace::ops
