// The embedding as a differentiable function.
#include "terrace/ops/embedding.h"

#include <ATen/ops/embedding.h>

#include "terrace/base/error.h"
#include "terrace/ops/kernels.h"
#include "terrace/ops/saved_object.h"

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class EmbeddingFunction : public torch::autograd::Function<EmbeddingFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& weight, const at::Tensor& indices,
                            const Weight& table) {
    context->save_for_backward({indices});
    save_object(context, "gradient", table.gradient);
    return at::embedding(weight, indices);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor indices = context->get_saved_variables()[0].contiguous().view(-1);  // [N]
    const auto& gradient = saved_object<at::Tensor>(context, "gradient");
    if (gradient.defined()) {
      const at::Tensor dy = gradients[0].contiguous().view({indices.size(0), -1});  // [N, D]
      kernels(dy.device()).add_rows(gradient, indices, dy);
    }
    return {{}, {}, {}};
  }
};

}  // namespace

at::Tensor embedding(const Weight& weight, const at::Tensor& indices, int64_t limit, const char* what) {
  check_indices(indices, 0, limit, what);
  return EmbeddingFunction::apply(weight.value, indices, weight);
}

void check_indices(const at::Tensor& indices, int64_t lowest, int64_t limit, const char* what) {
  if (!indices.is_cpu()) return;
  const at::Tensor flat = indices.contiguous();
  const int64_t* values = flat.const_data_ptr<int64_t>();
  for (int64_t n = 0; n < flat.numel(); ++n) {
    if (values[n] < lowest || values[n] >= limit) {
      throw UserError::of("{} {} is outside {} .. {} of this model", what, values[n], lowest, limit - 1);
    }
  }
}

}  // namespace terrace::ops
