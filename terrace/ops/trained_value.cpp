// Copies a value in forward and adds its gradient to the buffer in backward.
#include "terrace/ops/trained_value.h"

#include <torch/csrc/autograd/custom_function.h>

#include "terrace/ops/kernels.h"
#include "terrace/ops/saved_object.h"
#include "terrace/ops/second_derivative.h"

namespace terrace::ops {
namespace {

// The buffer that the gradient is added to, and the queue that defers the addition.
struct GradientSink {
  at::Tensor gradient;
  std::shared_ptr<bool> holds_sum;
  WeightGradientQueue* deferred;
};

void add_to(const GradientSink& sink, const at::Tensor& gradient) {
  if (begins_sum(sink.holds_sum)) {
    sink.gradient.copy_(gradient);
  } else {
    kernels(sink.gradient.device()).add(sink.gradient, gradient.contiguous());
  }
}

class TrainedValueFunction : public torch::autograd::Function<TrainedValueFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& value,
                            const GradientSink& sink, at::ScalarType type) {
    save_object(context, "sink", sink);
    return value.to(type, /*non_blocking=*/false, /*copy=*/true);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    refuse_second_derivative("trained_value");
    const auto& sink = saved_object<GradientSink>(context, "sink");
    if (sink.gradient.defined()) run_or_defer(sink.deferred, [sink, own = gradients[0]] { add_to(sink, own); });
    return {{}, {}, {}};
  }
};

}  // namespace

at::Tensor trained_value(const Weight& weight, at::ScalarType type, WeightGradientQueue* deferred) {
  if (!weight.value.defined()) return {};
  const GradientSink sink{weight.gradient, weight.gradient_holds_sum, deferred};
  return TrainedValueFunction::apply(weight.value, sink, type);
}

}  // namespace terrace::ops
