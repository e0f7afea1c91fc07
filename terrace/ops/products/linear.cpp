// Implements forward and backward of the linear layer.
#include "terrace/ops/products/linear.h"

#include <ATen/core/grad_mode.h>

#include <optional>

#include "terrace/ops/cut.h"
#include "terrace/ops/kernels.h"
#include "terrace/ops/products/products.h"
#include "terrace/ops/saved_object.h"
#include "terrace/ops/second_derivative.h"

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct LinearArguments {
  Weight weight, bias;
  WeightGradientQueue* deferred;
};

// dx [.., I] = dy [.., O] weight as a function of dy and the weight: the backward of a layer that torch keeps a graph
// of. Gradients of this function are those of a derivative of the layer, such as a force.
class InputGradientFunction : public torch::autograd::Function<InputGradientFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& dy, const at::Tensor& weight,
                            const LinearArguments& arguments) {
    context->save_for_backward({dy, weight});
    save_object(context, "arguments", arguments);
    std::vector<int64_t> sizes = dy.sizes().vec();
    sizes.back() = weight.size(1);
    return times(rows_of(dy).contiguous(), weight, arguments.weight.products.input_gradient).view(sizes);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_derivative("the derivative of linear");
    const auto saved = context->get_saved_variables();
    const auto& [own, bias, deferred] = saved_object<LinearArguments>(context, "arguments");
    const at::Tensor dy = rows_of(saved[0]).contiguous(), d_dx = rows_of(gradients[0]).contiguous();
    at::Tensor d_dy;
    if (context->needs_input_grad(0)) {
      const Products products = products_for(gradients[0].sizes(), d_dx.scalar_type(), own.products.forward);
      d_dy = times_transposed(d_dx, saved[1], {}, products).view(saved[0].sizes());
    }
    add_layer_gradients(own, {}, {dy, dy, d_dx}, deferred);
    return {d_dy, {}, {}};
  }
};

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const LinearArguments& arguments) {
    context->save_for_backward({x, weight});
    save_object(context, "arguments", arguments);
    const Weight &own = arguments.weight, &bias = arguments.bias;
    std::vector<int64_t> sizes = x.sizes().vec();
    sizes.back() = weight.size(0);
    if (cut_in(own.cut, 1) != nullptr) return sum_of_products(rows_of(x), weight, own, bias, sizes, "linear");
    const at::Tensor whole = whole_sequence(cut_in(own.cut, 0), x, "linear");
    sizes[sizes.size() - 2] = whole.size(-2);
    const Products products = products_for(whole.sizes(), whole.scalar_type(), own.products.forward);
    return times_transposed(rows_of(whole), weight, bias.value, products).view(sizes);  // [.., O]
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto& [own, bias, deferred] = saved_object<LinearArguments>(context, "arguments");
    if (at::GradMode::is_enabled()) {
      if (own.cut != nullptr) refuse_second_derivative("linear on tensor ranks");
      if (!context->needs_input_grad(0)) return {{}, {}, {}};
      return {InputGradientFunction::apply(gradients[0], saved[1], LinearArguments{own, bias, deferred}), {}, {}};
    }
    const Cut *by_outputs = cut_in(own.cut, 0), *by_inputs = cut_in(own.cut, 1);
    const at::Tensor& weight = saved[1];
    const at::Tensor x = rows_of(whole_sequence(by_outputs, saved[0], "linear gradient"));  // [N, I]
    const at::Tensor own_dy = rows_of(gradients[0]).contiguous();                           // of own positions
    const at::Tensor dy = rows_of(whole_sequence(by_inputs, gradients[0], "linear gradient")).contiguous();  // [N, O]
    std::optional<SharesSum> dx;
    if (context->needs_input_grad(0)) {
      std::vector<int64_t> sizes = gradients[0].sizes().vec();
      sizes.back() = weight.size(1);
      sizes[sizes.size() - 2] = -1;
      dx.emplace(by_outputs, times(dy, weight, own.products.input_gradient).view(sizes), "linear gradient");
    }
    add_layer_gradients(own, bias, {dy, own_dy, x}, deferred);
    return {dx ? dx->finish() : at::Tensor(), {}, {}};
  }
};

}  // namespace

at::Tensor sum_of_products(const at::Tensor& rows, const at::Tensor& value, const Weight& weight, const Weight& bias,
                           const std::vector<int64_t>& sizes, const char* what) {
  const Products products = products_for(sizes, rows.scalar_type(), weight.products.forward);
  const auto product = [&](const at::Tensor& y, int64_t begin) {
    times_transposed_into(y, rows.narrow(0, begin, y.size(0)), value, products);
  };
  const at::Tensor y = sum_while_computing(*weight.cut, sizes, rows.options(), product, what);
  return bias.value.defined() ? y.add_(bias.value) : y;
}

void add_layer_gradients(const Weight& weight, const Weight& bias, const LayerInputs& inputs,
                         WeightGradientQueue* deferred) {
  // Detached, since the graph of x would keep the input of a recomputed segment and its gradient until the queue is
  // run.
  run_or_defer(deferred,
               [weight = weight.gradient, bias = bias.gradient, products = weight.products.weight_gradient,
                dy = inputs.dy, own_dy = inputs.own_dy, x = inputs.x.detach(), holds_sum = weight.gradient_holds_sum] {
                 add_outer_product(weight, dy, x, products, begins_sum(holds_sum));
                 if (bias.defined()) kernels(dy.device()).add_column_sums(bias, own_dy);
               });
}

at::Tensor linear(const at::Tensor& x, const Weight& weight, const Weight& bias, WeightGradientQueue* deferred) {
  return LinearFunction::apply(x, weight.value, LinearArguments{weight, bias, deferred});
}

}  // namespace terrace::ops
