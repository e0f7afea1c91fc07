// Implements the vocabulary loss chunk by chunk.
#include "terrace/ops/loss/vocabulary_loss.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/ops/cpu/loss_rows.h"
#include "terrace/ops/cut.h"
#include "terrace/ops/embedding.h"
#include "terrace/ops/loss/exponential_loss.h"
#include "terrace/ops/products/products.h"
#include "terrace/ops/saved_object.h"
#include "terrace/ops/second_derivative.h"

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct LossInput {
  at::Tensor rows;     // hidden [N, D]
  at::Tensor targets;  // [N]
  const Weight& weight;
  const VocabularyLossOptions& options;
};

// Writes the losses of rows, and if the scale is not 0 the gradient of their logits to `logits`: the whole gradient, or
// the gradient divided by the factors [N] that are returned.
at::Tensor losses_of_rows(const LossRows& rows, const at::Tensor& logits, const at::Tensor& losses) {
  if (has_exponential_losses(rows.hidden, rows.weight)) return exponential_losses(rows, logits, losses);
  losses_of_logits(rows, logits, losses);
  return {};
}

// Computes the losses of the chunk of rows from `begin` on. If `gradient` is defined, writes the chunk's d hidden to it
// and adds the chunk's d weight.
void chunk_losses(const LossInput& in, int64_t begin, const at::Tensor& logits, const at::Tensor& gradient,
                  const at::Tensor& losses) {
  const int64_t size = logits.size(0);
  const Weight& weight = in.weight;
  const LossRows rows{in.rows.narrow(0, begin, size), in.targets.narrow(0, begin, size), weight, in.options.vocabulary,
                      gradient.defined() ? in.options.gradient_scale : 0.0};
  const at::Tensor factors = losses_of_rows(rows, logits, losses);
  if (!gradient.defined()) return;
  times_into(gradient, logits, weight.value, weight.products.input_gradient, factors);
  add_outer_product(weight.gradient, logits, factors.defined() ? cpu::scaled_rows(rows.hidden, factors) : rows.hidden,
                    weight.products.weight_gradient, begins_sum(weight.gradient_holds_sum));
}

// The losses [N] of the rows. If `gradient` is defined, writes d hidden to it (with a cut weight: this rank's share)
// and adds d weight.
at::Tensor losses_of(const LossInput& in, const at::Tensor& gradient) {
  const int64_t total = in.rows.size(0);
  const int64_t chunk = tokens_per_chunk(total, in.weight.value, in.options.chunk_bytes);
  at::Tensor losses = at::empty({total}, in.rows.options().dtype(at::kDouble));
  const at::Tensor buffer = at::empty({chunk, in.weight.value.size(0)}, in.rows.options());
  for (int64_t begin = 0; begin < total; begin += chunk) {
    const int64_t size = std::min(chunk, total - begin);
    chunk_losses(in, begin, buffer.narrow(0, 0, size), gradient.defined() ? gradient.narrow(0, begin, size) : gradient,
                 losses.narrow(0, begin, size));
  }
  return losses;
}

struct LossArguments {
  Weight weight;
  at::Tensor targets;
  VocabularyLossOptions options;
  bool differentiate = false;
};

class VocabularyLossFunction : public torch::autograd::Function<VocabularyLossFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden, const at::Tensor& weight,
                            const LossArguments& arguments) {
    Weight own = arguments.weight;
    own.value = weight;
    const at::Tensor whole = whole_sequence(cut_in(own.cut, 0), hidden, "loss");
    const at::Tensor rows = whole.contiguous().view({-1, whole.size(-1)});  // [N, D]
    const at::Tensor gradient = arguments.differentiate ? at::empty_like(rows) : at::Tensor();
    const at::Tensor losses =
        losses_of({rows, arguments.targets.contiguous().view(-1), own, arguments.options}, gradient);
    if (gradient.defined()) {
      SharesSum sum(cut_in(own.cut, 0), gradient.view(whole.sizes()), "loss gradient");
      context->save_for_backward({sum.finish()});
    }
    return losses.sum().to(hidden.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_derivative("vocabulary_loss");
    if (gradients[0].is_cpu()) {
      TERRACE_CHECK(gradients[0].item<double>() == 1.0, "the vocabulary loss must be the root of backward");
    }
    return {context->get_saved_variables()[0], {}, {}};
  }
};

}  // namespace

int64_t tokens_per_chunk(int64_t tokens, const at::Tensor& weight, int64_t chunk_bytes) {
  return loss_chunk_tokens(tokens, weight.size(0) * static_cast<int64_t>(weight.element_size()), chunk_bytes);
}

at::Tensor vocabulary_loss(const at::Tensor& hidden, const Weight& weight, const at::Tensor& targets,
                           const VocabularyLossOptions& options) {
  TERRACE_CHECK(options.gradient_scale != 0.0, "a gradient scale of 0");
  check_indices(targets, -1, options.vocabulary, "target");
  // Checked here because autograd is off inside VocabularyLossFunction::forward.
  const bool differentiate = at::GradMode::is_enabled() && (hidden.requires_grad() || weight.value.requires_grad());
  return VocabularyLossFunction::apply(hidden, weight.value, LossArguments{weight, targets, options, differentiate});
}

}  // namespace terrace::ops
