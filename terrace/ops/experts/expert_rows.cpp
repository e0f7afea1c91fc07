// Orders the pairs of tokens and slots, and implements gathering and summing as differentiable functions.
#include "terrace/ops/experts/expert_rows.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sort.h>

#include <optional>
#include <tuple>

#include "terrace/base/error.h"
#include "terrace/ops/cpu/expert_rows.h"
#include "terrace/ops/kernels.h"
#include "terrace/ops/saved_object.h"
#include "terrace/ops/second_derivative.h"
#include "terrace/profile/record.h"

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::ScalarType type_of_weights(at::ScalarType values) { return values == at::kDouble ? at::kDouble : at::kFloat; }

// Sorts by counting.
ExpertRows rows_on_cpu(const at::Tensor& choices, int64_t experts) {
  const int64_t all = choices.numel();
  ExpertRows rows{at::empty({all}, at::kLong), at::empty({all}, at::kLong), {}, choices.size(1)};
  rows.offsets.assign(static_cast<size_t>(experts) + 1, 0);
  const int32_t* chosen = choices.const_data_ptr<int32_t>();
  for (int64_t pair = 0; pair < all; ++pair) {
    TERRACE_CHECK(chosen[pair] >= 0 && chosen[pair] < experts, "expert {} of {}", chosen[pair], experts);
    ++rows.offsets[chosen[pair] + 1];
  }
  for (int64_t expert = 0; expert < experts; ++expert) rows.offsets[expert + 1] += rows.offsets[expert];
  std::vector<int64_t> next = rows.offsets;
  int64_t *pairs = rows.pairs.mutable_data_ptr<int64_t>(), *places = rows.places.mutable_data_ptr<int64_t>();
  for (int64_t pair = 0; pair < all; ++pair) {
    places[pair] = next[chosen[pair]]++;
    pairs[places[pair]] = pair;
  }
  return rows;
}

ExpertRows rows_by_sorting(const at::Tensor& choices, int64_t experts) {
  const at::Tensor flat = choices.flatten().to(at::kLong);
  ExpertRows rows;
  rows.slots = choices.size(1);
  rows.pairs = std::get<1>(at::sort(flat, /*stable=*/true, 0, /*descending=*/false)).contiguous();
  rows.places = at::empty_like(rows.pairs).scatter_(0, rows.pairs, at::arange(flat.size(0), flat.options()));
  const at::Tensor counts = at::bincount(flat, {}, experts).cpu();
  TERRACE_CHECK(counts.size(0) == experts, "expert {} of {}", counts.size(0) - 1, experts);
  rows.offsets.assign(1, 0);
  for (int64_t expert = 0; expert < experts; ++expert) {
    rows.offsets.push_back(rows.offsets.back() + counts.const_data_ptr<int64_t>()[expert]);
  }
  return rows;
}

// The copies of rows, with their weights if these are defined.
at::Tensor gathered(const at::Tensor& x, const ExpertRows& rows, const at::Tensor& weights) {
  const profile::OperationRecord record("terrace::gather_rows", [&] {
    const double copies = static_cast<double>(rows.pairs.size(0) * x.size(1)) * static_cast<double>(x.element_size());
    return profile::OperationCost{.bytes = 2 * copies + profile::bytes_of({rows.pairs, weights})};
  });
  if (!x.is_cpu()) {
    const at::Tensor copies = x.index_select(0, rows.pairs.div(rows.slots, "floor"));
    if (!weights.defined()) return copies;
    return copies.mul(weights.flatten().index_select(0, rows.pairs).unsqueeze(1)).to(x.scalar_type());
  }
  at::Tensor out = at::empty({rows.pairs.size(0), x.size(1)}, x.options());
  cpu::gather_rows(x, rows.pairs, rows.slots, weights, out);
  return out;
}

at::Tensor summed(const at::Tensor& values, const ExpertRows& rows, const at::Tensor& weights) {
  at::Tensor out = at::empty({values.size(0) / rows.slots, values.size(1)}, values.options());
  const profile::OperationRecord record("terrace::sum_rows", [&] {
    return profile::OperationCost{.bytes = profile::bytes_of({values, rows.places, weights, out})};
  });
  if (values.is_cpu()) {
    cpu::sum_rows(values, rows.places, rows.slots, weights, out);
    return out;
  }
  const at::Tensor first = at::arange(0, values.size(0) + 1, rows.slots, rows.places.options());
  if (!weights.defined()) {
    kernels(values.device()).sum_segments(values, rows.places, first, out);
    return out;
  }
  const at::Tensor weighted = values.mul(weights.flatten().index_select(0, rows.pairs).unsqueeze(1));
  const at::Tensor sums = at::empty(out.sizes(), weighted.options());
  kernels(values.device()).sum_segments(weighted, rows.places, first, sums);
  return sums.to(values.scalar_type());
}

// [N, k] of the scalar products of dy's rows with the rows of their slots.
at::Tensor products_of_rows(const at::Tensor& dy, const at::Tensor& values, const ExpertRows& rows) {
  const at::TensorOptions options = dy.options().dtype(type_of_weights(dy.scalar_type()));
  at::Tensor products = at::empty({dy.size(0), rows.slots}, options);
  if (!dy.is_cpu()) {
    const at::Tensor of_slots = values.index_select(0, rows.places).view({dy.size(0), rows.slots, -1});
    return of_slots.to(products.scalar_type()).mul(dy.unsqueeze(1)).sum(2);
  }
  cpu::row_products(dy, values, rows.places, rows.slots, products);
  return products;
}

class GatherRowsFunction : public torch::autograd::Function<GatherRowsFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const ExpertRows& rows) {
    save_object(context, "rows", rows);
    return gathered(x.contiguous(), rows, {});
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_derivative("gather_rows");
    return {summed(gradients[0].contiguous(), saved_object<ExpertRows>(context, "rows"), {}), {}};
  }
};

class SumRowsFunction : public torch::autograd::Function<SumRowsFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& values,
                            const std::optional<at::Tensor>& weights, const ExpertRows& rows) {
    const at::Tensor own = weights ? weights->contiguous() : at::Tensor();
    if (own.defined()) context->save_for_backward({values, own});
    save_object(context, "rows", rows);
    return summed(values.contiguous(), rows, own);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_derivative("sum_rows");
    const auto& rows = saved_object<ExpertRows>(context, "rows");
    const auto saved = context->get_saved_variables();
    const at::Tensor dy = gradients[0].contiguous(), weights = saved.empty() ? at::Tensor() : saved[1];
    at::Tensor d_values, d_weights;
    if (context->needs_input_grad(0)) d_values = gathered(dy, rows, weights);
    if (weights.defined() && context->needs_input_grad(1)) {
      d_weights = products_of_rows(dy, saved[0].contiguous(), rows);
    }
    return {d_values, d_weights, {}};
  }
};

class WeightsOfRowsFunction : public torch::autograd::Function<WeightsOfRowsFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& weights, const ExpertRows& rows) {
    save_object(context, "rows", rows);
    return weights.flatten().index_select(0, rows.pairs);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_derivative("weights_of_rows");
    const auto& rows = saved_object<ExpertRows>(context, "rows");
    return {gradients[0].index_select(0, rows.places).view({-1, rows.slots}), {}};
  }
};

}  // namespace

ExpertRows rows_of_choices(const at::Tensor& choices, int64_t experts) {
  TERRACE_CHECK(choices.dim() == 2 && choices.is_contiguous() && choices.scalar_type() == at::kInt,
                "choices of {} dimensions in {}", choices.dim(), c10::toString(choices.scalar_type()));
  return choices.is_cpu() ? rows_on_cpu(choices, experts) : rows_by_sorting(choices, experts);
}

at::Tensor gather_rows(const at::Tensor& x, const ExpertRows& rows) {
  TERRACE_CHECK(x.dim() == 2 && x.size(0) * rows.slots == rows.pairs.size(0), "{} tokens for {} rows", x.size(0),
                rows.pairs.size(0));
  return GatherRowsFunction::apply(x, rows);
}

at::Tensor sum_rows(const at::Tensor& values, const ExpertRows& rows, const at::Tensor& weights) {
  TERRACE_CHECK(values.dim() == 2 && values.size(0) == rows.pairs.size(0), "{} values for {} rows", values.size(0),
                rows.pairs.size(0));
  TERRACE_CHECK(!weights.defined() || weights.scalar_type() == type_of_weights(values.scalar_type()),
                "weights in {} of values in {}", c10::toString(weights.scalar_type()),
                c10::toString(values.scalar_type()));
  return SumRowsFunction::apply(values, weights.defined() ? std::optional(weights) : std::nullopt, rows);
}

at::Tensor weights_of_rows(const at::Tensor& weights, const ExpertRows& rows) {
  TERRACE_CHECK(weights.numel() == rows.pairs.size(0), "{} weights for {} rows", weights.numel(), rows.pairs.size(0));
  return WeightsOfRowsFunction::apply(weights, rows);
}

}  // namespace terrace::ops
