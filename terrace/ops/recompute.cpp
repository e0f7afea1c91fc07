// Recompute as an autograd function.
#include "terrace/ops/recompute.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "terrace/ops/saved_object.h"

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Segment = std::function<at::Tensor(const at::Tensor&)>;

class RecomputeFunction : public torch::autograd::Function<RecomputeFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const Segment& segment) {
    context->save_for_backward({input});
    save_object(context, "segment", segment);
    return segment(input);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor input = context->get_saved_variables()[0].detach().requires_grad_(true);
    at::Tensor output;
    {
      at::AutoGradMode enabled(true);
      output = saved_object<Segment>(context, "segment")(input);
    }
    // backward() rather than grad(): leaves inside the segment have to receive theirs too.
    torch::autograd::backward({output}, {gradients[0]});
    return {input.grad(), {}};
  }
};

}  // namespace

at::Tensor recompute(const Segment& segment, const at::Tensor& input) {
  if (!at::GradMode::is_enabled() || !input.defined() || !input.requires_grad()) return segment(input);
  return RecomputeFunction::apply(input, segment);
}

}  // namespace terrace::ops
