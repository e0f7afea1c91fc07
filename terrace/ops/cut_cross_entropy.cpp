// Combines the largest logit, the sum of exponentials and the target's logit of each row over the ranks.
#include "terrace/ops/cut_cross_entropy.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>

namespace terrace::ops {
namespace {

constexpr double least = -std::numeric_limits<double>::infinity();

// The sums of one rank, or of all ranks.
struct RowSums {
  at::Tensor top;    // [N] double: the largest logit
  at::Tensor sum;    // [N] double: of exp(logit - top)
  at::Tensor logit;  // [N] double: the target's, 0 if another rank has it
};

// `real` [N, V'] are this rank's columns without padding, possibly none; `column` [N] is the target's column among
// them, -1: on another rank.
RowSums own_sums(const at::Tensor& real, const at::Tensor& column) {
  const auto numbers = real.options().dtype(at::kDouble);
  if (real.size(1) == 0) {
    const at::Tensor none = at::zeros({real.size(0)}, numbers);
    return {at::full({real.size(0)}, least, numbers), none, none};
  }
  const auto wide = real.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor top = real.amax(1).to(wide);  // [N]
  const at::Tensor sum = real.to(wide, false, /*copy=*/true).sub_(top.unsqueeze(1)).exp_().sum(1, false, at::kDouble);
  const at::Tensor logit = real.gather(1, column.clamp_min(0).unsqueeze(1)).squeeze(1).to(at::kDouble);
  return {top.to(at::kDouble), sum, logit.masked_fill(column.lt(0), 0)};
}

RowSums sums_of_all(const Cut& cut, const RowSums& own) {
  const int64_t rows = own.top.size(0);
  const at::Tensor mine = at::empty({3, rows}, own.top.options());
  mine[0].copy_(own.top);
  mine[1].copy_(own.sum);
  mine[2].copy_(own.logit);
  const at::Tensor all = at::empty({cut.ranks->size(), 3, rows}, own.top.options());
  cut.ranks->gather(mine, all, "loss")->wait();
  const at::Tensor tops = all.select(1, 0), top = tops.amax(0);  // [ranks, N], [N]
  const at::Tensor sum = tops.sub(top).exp_().mul_(all.select(1, 1)).sum(0);
  return {top, sum, all.select(1, 2).sum(0)};
}

}  // namespace

void cut_cross_entropy(const Cut& cut, const at::Tensor& logits, const at::Tensor& targets, int64_t vocabulary,
                       double gradient_scale, const at::Tensor& losses) {
  const int64_t columns = logits.size(1), first = cut.ranks->member() * columns;
  const int64_t real_columns = std::clamp<int64_t>(vocabulary - first, 0, columns);
  const at::Tensor real = logits.narrow(1, 0, real_columns);
  const at::Tensor shifted = targets.sub(first);
  const at::Tensor column = at::where(shifted.ge(0).logical_and(shifted.lt(real_columns)), shifted, -1);  // [N]
  const at::Tensor counted = targets.ge(0);
  const RowSums all = sums_of_all(cut, own_sums(real, column));
  losses.copy_(all.sum.log().add_(all.top).sub_(all.logit).masked_fill_(counted.logical_not(), 0));
  if (gradient_scale == 0.0) return;
  logits.narrow(1, real_columns, columns - real_columns).zero_();
  if (real_columns == 0) return;
  const auto wide = real.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor factor = all.sum.reciprocal().mul_(gradient_scale).mul_(counted).to(wide).unsqueeze(1);
  real.copy_(real.to(wide, false, /*copy=*/true).sub_(all.top.to(wide).unsqueeze(1)).exp_().mul_(factor));
  // The target is computed separately: rounding the probability before subtracting 1 would lose digits of the
  // difference.
  const at::Tensor probability = all.logit.sub(all.top).exp_().div_(all.sum);
  const at::Tensor at_target = probability.sub(1.0).mul_(gradient_scale).to(real.scalar_type()).unsqueeze(1);
  const at::Tensor place = column.clamp_min(0).unsqueeze(1);
  real.scatter_(1, place, at::where(column.ge(0).unsqueeze(1), at_target, real.gather(1, place)));
}

}  // namespace terrace::ops
