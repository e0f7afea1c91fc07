// Implements the embedding as a differentiable function.
#include "terrace/ops/embedding.h"

#include <ATen/ops/embedding.h>

#include "terrace/base/error.h"
#include "terrace/ops/cut.h"
#include "terrace/ops/kernels.h"
#include "terrace/ops/saved_object.h"
#include "terrace/ops/second_derivative.h"

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct EmbeddingArguments {
  Weight table;
  WeightGradientQueue* deferred;
};

class EmbeddingFunction : public torch::autograd::Function<EmbeddingFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& weight, const at::Tensor& indices,
                            const EmbeddingArguments& arguments) {
    save_object(context, "arguments", arguments);
    const Weight& table = arguments.table;
    const Cut* by_rows = cut_in(table.cut, 0);
    if (by_rows == nullptr) {
      const at::Tensor own = own_positions(table.cut, indices);
      context->save_for_backward({own});
      return at::embedding(weight, own);
    }
    // Indices of rows on other ranks give zeros: they are replaced by index 0 and masked.
    const at::Tensor local = indices.sub(by_rows->ranks->member() * weight.size(0));
    const at::Tensor elsewhere = local.lt(0).logical_or(local.ge(weight.size(0)));
    const at::Tensor safe = local.masked_fill(elsewhere, 0);
    context->save_for_backward({safe, elsewhere});
    const at::Tensor share = at::embedding(weight, safe).masked_fill_(elsewhere.unsqueeze(-1), 0);
    return SharesSum(by_rows, share, "embedding").finish();
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_derivative("embedding");
    const auto saved = context->get_saved_variables();
    const auto& [table, deferred] = saved_object<EmbeddingArguments>(context, "arguments");
    if (!table.gradient.defined()) return {{}, {}, {}};
    at::Tensor dy = gradients[0];
    if (const Cut* by_rows = cut_in(table.cut, 0)) {
      dy = whole_sequence(by_rows, dy, "embedding gradient").masked_fill(saved[1].unsqueeze(-1), 0);
    }
    const at::Tensor indices = saved[0].contiguous().view(-1);                     // [N]
    const at::Tensor rows = dy.contiguous().view({indices.size(0), dy.size(-1)});  // [N, D]
    run_or_defer(deferred, [gradient = table.gradient, indices, rows, holds_sum = table.gradient_holds_sum] {
      if (begins_sum(holds_sum)) gradient.zero_();
      kernels(rows.device()).add_rows(gradient, indices, rows);
    });
    return {{}, {}, {}};
  }
};

}  // namespace

at::Tensor embedding(const Weight& weight, const at::Tensor& indices, int64_t limit, const char* what,
                     WeightGradientQueue* deferred) {
  check_indices(indices, 0, limit, what);
  return EmbeddingFunction::apply(weight.value, indices, EmbeddingArguments{weight, deferred});
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
