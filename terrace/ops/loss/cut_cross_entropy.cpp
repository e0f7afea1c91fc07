// Combines the largest logit, the sum of exponentials and the target's logit of each row over the ranks.
#include "terrace/ops/loss/cut_cross_entropy.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <functional>
#include <limits>

namespace terrace::ops {
namespace {

constexpr double least = -std::numeric_limits<double>::infinity();

at::ScalarType wide_type(const at::Tensor& logits) {
  return logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// Calls body(begin, size) for blocks of so few rows that their copies in wider types stay small. Each row is computed
// by itself, so the blocks change no bit.
void for_row_blocks(const at::Tensor& logits, const std::function<void(int64_t begin, int64_t size)>& body) {
  // A block's fp32 numbers stay in a core's cache; on a GPU a block is large enough for all of it.
  const int64_t block_elements = logits.is_cpu() ? int64_t{1} << 16 : int64_t{1} << 24;
  const int64_t rows = std::max<int64_t>(1, block_elements / std::max<int64_t>(1, logits.size(1)));
  for (int64_t begin = 0; begin < logits.size(0); begin += rows) {
    body(begin, std::min(logits.size(0) - begin, rows));
  }
}

// `real` [N, V'] are this rank's columns without padding, possibly none; `column` [N] is the target's column among
// them, -1: on another rank.
RowSums own_sums(const at::Tensor& real, const at::Tensor& column) {
  const auto numbers = real.options().dtype(at::kDouble);
  if (real.size(1) == 0) {
    const at::Tensor none = at::zeros({real.size(0)}, numbers);
    return {at::full({real.size(0)}, least, numbers), none, none};
  }
  const at::Tensor tops = at::empty({real.size(0)}, numbers), sums = at::empty({real.size(0)}, numbers);
  for_row_blocks(real, [&](int64_t begin, int64_t size) {
    const at::Tensor block = real.narrow(0, begin, size), top = block.amax(1).to(wide_type(real));
    at::Tensor sum = sums.narrow(0, begin, size);
    at::sum_out(sum, block.to(wide_type(real), false, /*copy=*/true).sub_(top.unsqueeze(1)).exp_(), 1, false,
                at::kDouble);
    tops.narrow(0, begin, size).copy_(top);
  });
  const at::Tensor logit = real.gather(1, column.clamp_min(0).unsqueeze(1)).squeeze(1).to(at::kDouble);
  return {tops, sums, logit.masked_fill(column.lt(0), 0)};
}

}  // namespace

LossColumns loss_columns(const Cut* cut, const at::Tensor& targets, int64_t columns, int64_t vocabulary) {
  const int64_t first = cut == nullptr ? 0 : cut->ranks->member() * columns;
  const int64_t counted = std::clamp<int64_t>(vocabulary - first, 0, columns);
  const at::Tensor shifted = targets.sub(first);
  return {counted, at::where(shifted.ge(0).logical_and(shifted.lt(counted)), shifted, -1)};
}

SumsOfRanks sums_of_all(const Cut& cut, const RowSums& own) {
  const int64_t rows = own.top.size(0);
  const at::Tensor mine = at::empty({3, rows}, own.top.options());
  mine[0].copy_(own.top);
  mine[1].copy_(own.sum);
  mine[2].copy_(own.logit);
  const at::Tensor all = at::empty({cut.ranks->size(), 3, rows}, own.top.options());
  cut.ranks->gather(mine, all, "loss")->wait();
  const at::Tensor tops = all.select(1, 0), top = tops.amax(0);  // [ranks, N], [N]
  const at::Tensor sums = all.select(1, 1), sum = tops.sub(top).exp_().mul_(sums).sum(0);
  const at::Tensor least_top = at::where(sums.eq(0), top, tops).amin(0);
  return {{top, sum, all.select(1, 2).sum(0)}, top.sub(least_top)};
}

void cut_cross_entropy(const Cut& cut, const at::Tensor& logits, const at::Tensor& targets, int64_t vocabulary,
                       double gradient_scale, const at::Tensor& losses) {
  const int64_t columns = logits.size(1);
  const auto [real_columns, column] = loss_columns(&cut, targets, columns, vocabulary);
  const at::Tensor real = logits.narrow(1, 0, real_columns);
  const at::Tensor counted = targets.ge(0);
  const RowSums all = sums_of_all(cut, own_sums(real, column));
  losses.copy_(all.sum.log().add_(all.top).sub_(all.logit).masked_fill_(counted.logical_not(), 0));
  if (gradient_scale == 0.0) return;
  logits.narrow(1, real_columns, columns - real_columns).zero_();
  if (real_columns == 0) return;
  const auto wide = wide_type(real);
  const at::Tensor factor = all.sum.reciprocal().mul_(gradient_scale).mul_(counted).to(wide).unsqueeze(1);
  const at::Tensor top = all.top.to(wide).unsqueeze(1);
  for_row_blocks(real, [&](int64_t begin, int64_t size) {
    const auto of = [&](const at::Tensor& rows) { return rows.narrow(0, begin, size); };
    of(real).copy_(of(real).to(wide, false, /*copy=*/true).sub_(of(top)).exp_().mul_(of(factor)));
  });
  // The target is computed separately: rounding the probability before subtracting 1 would lose digits of the
  // difference.
  const at::Tensor probability = all.logit.sub(all.top).exp_().div_(all.sum);
  const at::Tensor at_target = probability.sub(1.0).mul_(gradient_scale).to(real.scalar_type()).unsqueeze(1);
  const at::Tensor place = column.clamp_min(0).unsqueeze(1);
  real.scatter_(1, place, at::where(column.ge(0).unsqueeze(1), at_target, real.gather(1, place)));
}

}  // namespace terrace::ops
