// Forward and backward by the three products of a linear layer.
#include "terrace/ops/products/product.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "terrace/ops/products/products.h"
#include "terrace/ops/saved_object.h"
#include "terrace/ops/second_derivative.h"

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class ProductFunction : public torch::autograd::Function<ProductFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& w,
                            const ProductChoice& products) {
    context->save_for_backward({x, w});
    save_object(context, "products", products);
    return times_transposed(x.contiguous(), w.contiguous(), {}, products.forward);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &w = saved[1];
    const auto& products = saved_object<ProductChoice>(context, "products");
    at::Tensor dx, dw;
    if (at::GradMode::is_enabled()) {
      if (context->needs_input_grad(1)) refuse_second_derivative("product by its second factor");
      if (context->needs_input_grad(0)) dx = product(gradients[0], w.t(), products);
      return {dx, dw, {}};
    }
    const at::Tensor dy = gradients[0].contiguous();
    if (context->needs_input_grad(0)) dx = times(dy, w.contiguous(), products.input_gradient);
    if (context->needs_input_grad(1)) {
      dw = at::empty(w.sizes(), w.options().requires_grad(false));
      add_outer_product(dw, dy, x.contiguous(), products.weight_gradient, /*begins=*/true);
    }
    return {dx, dw, {}};
  }
};

}  // namespace

at::Tensor product(const at::Tensor& x, const at::Tensor& w, const ProductChoice& products) {
  return ProductFunction::apply(x, w, products);
}

}  // namespace terrace::ops
