// Implements the split of the joint projection into heads, with rotary positions.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "terrace/base/error.h"
#include "terrace/ops/attention/attention.h"
#include "terrace/ops/embedding.h"
#include "terrace/ops/kernels.h"
#include "terrace/ops/saved_object.h"
#include "terrace/ops/second_derivative.h"

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct SplitArguments {
  HeadLayout layout;
  RotaryTable table;     // undefined: no rotation
  at::Tensor positions;  // [B, T] or undefined
};

// [B, T, G, R, hd] -> [B, G * R, T, hd]: a view if each group has one query or the memory is dense.
at::Tensor by_head(const at::Tensor& view) { return view.flatten(2, 3).transpose(1, 2); }

// The gradient of heads [B, H, T, hd] in the grouping of `view` [B, T, G, R, hd].
at::Tensor grouped_like(const at::Tensor& heads, const at::Tensor& view) {
  return heads.transpose(1, 2).unflatten(2, {view.size(2), view.size(3)});
}

// Returns heads whose elements lie together, as the kernels need it.
at::Tensor with_dense_heads(const at::Tensor& in) { return in.stride(-1) == 1 ? in : in.contiguous(); }

void rotate(const at::Tensor& in, const at::Tensor& out, const SplitArguments& arguments, int direction) {
  kernels(in.device())
      .rotate(with_dense_heads(in), out, arguments.table.cosines, arguments.table.sines, arguments.positions,
              direction);
}

void copy(const at::Tensor& in, const at::Tensor& out) { kernels(in.device()).copy_heads(with_dense_heads(in), out); }

at::Tensor rotated(const at::Tensor& view, const SplitArguments& arguments) {
  at::Tensor out = at::empty(view.sizes(), view.options());
  rotate(view, out, arguments, 1);
  return out;
}

// The weight of the unscaled angle of each pair in the mean of it and the divided one, [head_dim/2].
at::Tensor unscaled_share(const at::Tensor& angles, double theta, const RotaryScaling& scaling) {
  const double whole_turn = 2 * std::numbers::pi, low = scaling.low_frequency, high = scaling.high_frequency;
  const auto original = static_cast<double>(scaling.original_positions);
  if (scaling.kind == RotaryScaling::Kind::llama3) {
    return angles.mul(original / whole_turn).sub(low).div(high - low).clamp(0.0, 1.0);
  }
  const auto head_dim = static_cast<double>(2 * angles.numel());
  // The pair that turns so many times in `original` positions; it lies between two pairs in general.
  const auto pair_of = [&](double turns) {
    return head_dim * std::log(original / (turns * whole_turn)) / (2 * std::log(theta));
  };
  double first = pair_of(high), last = pair_of(low);
  if (scaling.whole_pairs) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, head_dim - 1);
  if (first == last) last += 0.001;  // a step between two pairs
  return at::arange(angles.numel(), angles.options()).sub(first).div(last - first).clamp(0.0, 1.0).neg().add(1.0);
}

// The angles of one position, [head_dim/2] in double precision.
at::Tensor scaled(const at::Tensor& angles, double theta, const RotaryScaling& scaling) {
  if (scaling.kind == RotaryScaling::Kind::none) return angles;
  if (scaling.kind == RotaryScaling::Kind::linear) return angles.div(scaling.factor);
  const at::Tensor kept = unscaled_share(angles, theta, scaling);
  return angles.mul(kept.add(kept.neg().add(1.0).div(scaling.factor)));
}

class SplitHeadsFunction : public torch::autograd::Function<SplitHeadsFunction> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& joint, const SplitArguments& arguments) {
    save_object(context, "arguments", arguments);
    context->saved_data["sizes"] = joint.sizes();
    const JointViews views = joint_views(joint.contiguous(), arguments.layout);
    const bool rotary = arguments.table.cosines.defined();
    return {by_head(rotary ? rotated(views.queries, arguments) : views.queries),
            by_head(rotary ? rotated(views.keys, arguments) : views.keys), by_head(views.values)};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_derivative("split_heads");
    const auto& arguments = saved_object<SplitArguments>(context, "arguments");
    const auto sizes = context->saved_data["sizes"].toIntVector();
    at::Tensor joint = at::empty(sizes, gradients[0].options());
    const JointViews views = joint_views(joint, arguments.layout);
    const at::Tensor queries = grouped_like(gradients[0], views.queries);
    const at::Tensor keys = grouped_like(gradients[1], views.keys);
    if (arguments.table.cosines.defined()) {
      rotate(queries, views.queries, arguments, -1);
      rotate(keys, views.keys, arguments, -1);
    } else {
      copy(queries, views.queries);
      copy(keys, views.keys);
    }
    copy(grouped_like(gradients[2], views.values), views.values);
    return {joint, {}};
  }
};

}  // namespace

JointViews joint_views(const at::Tensor& joint, const HeadLayout& layout) {
  const int64_t per_group = layout.queries_per_group;
  const at::Tensor grouped = joint.view({joint.size(0), joint.size(1), layout.groups, per_group + 2, layout.head_dim});
  return {grouped.narrow(3, 0, per_group), grouped.narrow(3, per_group, 1), grouped.narrow(3, per_group + 1, 1)};
}

HeadLayout HeadLayout::part(int64_t part_columns) const {
  const int64_t group = (queries_per_group + 2) * head_dim;
  HeadLayout own = *this;
  own.groups = std::max<int64_t>(1, part_columns / group);
  if (part_columns < group) own.queries_per_group = part_columns / head_dim - 2;
  TERRACE_CHECK(own.columns() == part_columns && own.queries_per_group > 0, "{} columns of groups of {}", part_columns,
                group);
  return own;
}

int64_t HeadLayout::head_of(int64_t column) const {
  const int64_t group = (queries_per_group + 2) * head_dim;
  return column / group * queries_per_group + column % group / head_dim;
}

RotaryTable rotary_table(int64_t positions, int64_t head_dim, double theta, const at::Device& device,
                         const RotaryScaling& scaling) {
  TERRACE_CHECK(head_dim % 2 == 0, "rotary positions with head_dim {}", head_dim);
  const auto options = at::TensorOptions().dtype(at::kDouble);
  const at::Tensor exponents = at::arange(0, head_dim, 2, options).div(static_cast<double>(-head_dim));
  const at::Tensor angles =
      at::outer(at::arange(positions, options), scaled(at::pow(theta, exponents), theta, scaling));
  const double factor = scaling.attention_factor;
  return {angles.cos().mul(factor).to(at::kFloat).to(device), angles.sin().mul(factor).to(at::kFloat).to(device)};
}

void check_positions(const at::Tensor& joint, const RotaryTable& table, const at::Tensor& positions) {
  const int64_t limit = table.cosines.size(0);
  if (positions.defined()) {
    check_indices(positions, 0, limit, "position");
  } else if (joint.size(1) > limit) {
    throw UserError::of("a sequence of {} tokens is longer than model.sequence = {}; use at most {} tokens",
                        joint.size(1), limit, limit);
  }
}

Heads split_heads(const at::Tensor& joint, const HeadLayout& layout, const RotaryTable* table,
                  const at::Tensor& positions) {
  TERRACE_CHECK(joint.dim() == 3 && joint.size(2) == layout.columns(), "{} columns for heads of {}", joint.size(-1),
                layout.columns());
  if (table) check_positions(joint, *table, positions);
  const SplitArguments arguments{layout, table ? *table : RotaryTable{}, positions};
  const auto heads = SplitHeadsFunction::apply(joint, arguments);
  return {heads[0], heads[1], heads[2]};
}

}  // namespace terrace::ops
