// Forward and backward of the linear layer.
#include "terrace/ops/linear.h"

#include "terrace/ops/kernels.h"
#include "terrace/ops/products.h"
#include "terrace/ops/saved_object.h"

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What backward needs beside the tensors that autograd keeps.
struct LinearSinks {
  at::Tensor weight_gradient;
  at::Tensor bias_gradient;
  WeightGradientQueue* deferred;
  Products products;

  void add(const at::Tensor& dy, const at::Tensor& x) const {
    add_outer_product(weight_gradient, dy, x, products);
    if (bias_gradient.defined()) kernels(dy.device()).add_column_sums(bias_gradient, dy);
  }
};

at::Tensor as_rows(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  // The bias is no autograd input: backward adds its gradient itself.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight, const Weight& bias,
                            const LinearSinks& sinks) {
    context->save_for_backward({x, weight});
    save_object(context, "sinks", sinks);
    const at::Tensor y = times_transposed(as_rows(x), weight, bias.value, sinks.products);  // [N, O]
    auto shape = x.sizes().vec();
    shape.back() = weight.size(0);
    return y.view(shape);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor dy = as_rows(gradients[0]).contiguous();  // [N, O]
    const auto& sinks = saved_object<LinearSinks>(context, "sinks");
    at::Tensor dx;
    if (context->needs_input_grad(0)) dx = times(dy, weight, sinks.products).view(x.sizes());
    if (sinks.deferred) {
      sinks.deferred->push([sinks, dy, rows = as_rows(x)] { sinks.add(dy, rows); });
    } else {
      sinks.add(dy, as_rows(x));
    }
    return {dx, {}, {}, {}};
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, const Weight& weight, const Weight& bias, WeightGradientQueue* deferred) {
  return LinearFunction::apply(x, weight.value, bias,
                               LinearSinks{weight.gradient, bias.gradient, deferred, weight.products});
}

}  // namespace terrace::ops
