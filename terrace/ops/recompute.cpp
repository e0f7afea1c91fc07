// Implements recompute as an autograd function.
#include "terrace/ops/recompute.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "terrace/ops/saved_object.h"
#include "terrace/ops/second_derivative.h"

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Recomputed = std::function<variable_list(const variable_list&)>;

bool requires_grad(const at::Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); }

class RecomputeFunction : public torch::autograd::Function<RecomputeFunction> {
 public:
  // The input is a TensorList because autograd does not look for variables in a std::vector.
  static variable_list forward(AutogradContext* context, at::TensorList input, const Recomputed& function) {
    context->save_for_backward(input.vec());
    save_object(context, "function", function);
    return function(input.vec());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_derivative("recompute");
    variable_list input;
    for (const at::Tensor& saved : context->get_saved_variables()) {
      input.push_back(saved.detach());
      if (saved.requires_grad()) input.back().requires_grad_(true);
    }
    variable_list output;
    {
      at::AutoGradMode enabled(true);
      output = saved_object<Recomputed>(context, "function")(input);
    }
    variable_list roots, upstream;
    for (size_t i = 0; i < output.size(); ++i) {
      if (!requires_grad(output[i])) continue;
      roots.push_back(output[i]);
      upstream.push_back(gradients[i]);
    }
    // backward() rather than grad(), so that the leaves that the function uses receive their gradients too.
    torch::autograd::backward(roots, upstream);
    variable_list result;
    for (const at::Tensor& tensor : input) result.push_back(tensor.grad());
    result.emplace_back();  // the function has no gradient
    return result;
  }
};

}  // namespace

variable_list recompute(const Recomputed& function, const variable_list& input) {
  if (!at::GradMode::is_enabled() || std::ranges::none_of(input, requires_grad)) return function(input);
  return RecomputeFunction::apply(at::TensorList(input), function);
}

at::Tensor recompute(const std::function<at::Tensor(const at::Tensor&)>& function, const at::Tensor& input) {
  return recompute([function](const variable_list& one) { return variable_list{function(one.front())}; },
                   variable_list{input})
      .front();
}

}  // namespace terrace::ops
