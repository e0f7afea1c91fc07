// Implements attention from the joint projection to the context as one autograd function over our own kernels.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <unordered_map>

#include "terrace/base/error.h"
#include "terrace/ops/attention/attention.h"
#include "terrace/ops/attention/attention_kernels.h"
#include "terrace/ops/attention/flash_attention.h"
#include "terrace/ops/saved_object.h"
#include "terrace/ops/second_derivative.h"
#include "terrace/profile/record.h"

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct JointArguments {
  AttentionInput input;  // without `joint`, which autograd saves
  const AttentionKernels* kernels = nullptr;
};

// Elements of all heads times the pairs of a query and a key that it sees, without regard to documents; each matrix
// product has 2 FLOPs for each.
double flops_unit(const AttentionInput& input) {
  const auto length = static_cast<double>(input.joint.size(1)), window = static_cast<double>(input.window);
  double pairs = input.visibility == Visibility::causal ? length * (length + 1) / 2 : length * length;
  if (input.window > 0) pairs = window * (window + 1) / 2 + (length - window) * window;
  return static_cast<double>(input.joint.size(0) * input.layout.heads() * input.layout.head_dim) * pairs;
}

class JointAttentionFunction : public torch::autograd::Function<JointAttentionFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& joint, JointArguments arguments) {
    const HeadLayout& layout = arguments.input.layout;
    arguments.input.joint = joint.contiguous();
    at::Tensor result = at::empty({joint.size(0), joint.size(1), layout.heads() * layout.head_dim},
                                  joint.options().requires_grad(false));
    const at::Tensor log_sums =
        at::empty({joint.size(0), layout.heads(), joint.size(1)}, result.options().dtype(at::kFloat));
    {
      const profile::OperationRecord record("terrace::attention", [&] {
        return profile::OperationCost{.flops = 4 * flops_unit(arguments.input),
                                      .bytes = profile::bytes_of({joint, result, log_sums})};
      });
      arguments.kernels->forward(arguments.input, result, log_sums);
    }
    context->save_for_backward({arguments.input.joint, result, log_sums});
    arguments.input.joint.reset();
    save_object(context, "arguments", std::move(arguments));
    return result;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_derivative("joint_attention");
    const auto saved = context->get_saved_variables();
    const auto& arguments = saved_object<JointArguments>(context, "arguments");
    AttentionInput input = arguments.input;
    input.joint = saved[0];
    const at::Tensor joint_gradient = at::empty(input.joint.sizes(), gradients[0].options());
    const profile::OperationRecord record("terrace::attention_backward", [&] {
      return profile::OperationCost{
          .flops = 10 * flops_unit(input),
          .bytes = profile::bytes_of({input.joint, saved[1], saved[2], gradients[0], joint_gradient})};
    });
    arguments.kernels->backward(input, saved[1], saved[2], gradients[0].contiguous(), joint_gradient);
    return {joint_gradient, {}};
  }
};

// Computes AttentionInput::document_begins; the tokens of a document need not be consecutive.
at::Tensor document_begins(const at::Tensor& documents) {
  const int64_t batch = documents.size(0), length = documents.size(1), padded = (length + 15) / 16 * 16;
  at::Tensor begins = at::full({batch, padded}, -1, at::TensorOptions().dtype(at::kInt));
  const at::Tensor dense = documents.contiguous();
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t* document = dense.const_data_ptr<int64_t>() + b * length;
    int32_t* begin = begins.mutable_data_ptr<int32_t>() + b * padded;
    std::unordered_map<int64_t, int32_t> first;
    for (int64_t t = 0; t < length; ++t) {
      const bool same = t > 0 && document[t] == document[t - 1];
      begin[t] = same ? begin[t - 1] : first.try_emplace(document[t], static_cast<int32_t>(t)).first->second;
    }
  }
  return begins;
}

}  // namespace

at::Tensor joint_attention(const at::Tensor& joint, const HeadLayout& layout, const RotaryTable* table,
                           const at::Tensor& positions, const Documents& documents, AttentionChoice choice,
                           Visibility visibility, int64_t window) {
  TERRACE_CHECK(window == 0 || visibility == Visibility::causal, "a window of {} keys without causal attention",
                window);
  const int64_t length = joint.size(1);
  if (window >= length) window = 0;
  const AttentionKernels* kernels = attention_kernels(joint.device(), joint.scalar_type(), layout);
  if (!kernels || choice == AttentionChoice::torch) {
    const Heads heads = split_heads(joint, layout, table, positions);
    const bool has_documents = documents.numbers.defined(), has_starts = documents.starts.defined();
    const bool flash = takes_flash(joint.device(), joint.scalar_type(), layout.head_dim);
    if (flash && (has_documents ? has_starts : window > 0)) {
      return flash_attention(heads, documents, visibility, window);
    }
    at::Tensor mask;
    if (has_documents) {
      mask = document_mask(documents.numbers, visibility, window);
    } else if (window > 0) {
      mask = causal_mask(length, length, joint.device(), window);
    }
    return attention(heads, mask, {}, "", visibility);
  }
  TERRACE_CHECK(joint.dim() == 3 && joint.size(2) == layout.columns(), "{} columns for heads of {}", joint.size(-1),
                layout.columns());
  JointArguments arguments;
  arguments.input.layout = layout;
  arguments.input.visibility = visibility;
  arguments.input.window = window;
  arguments.kernels = kernels;
  if (table) {
    check_positions(joint, *table, positions);
    arguments.input.table = *table;
    if (positions.defined()) arguments.input.positions = positions.contiguous();
  }
  if (documents.numbers.defined()) arguments.input.document_begins = document_begins(documents.numbers);
  return JointAttentionFunction::apply(joint, std::move(arguments));
}

std::string_view attention_instructions(const at::Device& device) {
  const HeadLayout layout{.groups = 1, .head_dim = 64};
  for (at::ScalarType type : {at::kBFloat16, at::kFloat}) {
    if (const AttentionKernels* kernels = attention_kernels(device, type, layout)) return kernels->name;
  }
  return "torch";
}

}  // namespace terrace::ops
