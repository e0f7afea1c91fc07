// Computes exponentials, combines their sums over the ranks, and computes rows beyond their range again.
#include "terrace/ops/loss/exponential_loss.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "terrace/base/operation_limits.h"
#include "terrace/ops/cpu/loss_rows.h"
#include "terrace/ops/cpu/matmul.h"
#include "terrace/ops/cut.h"
#include "terrace/ops/element_type.h"
#include "terrace/ops/kernels.h"
#include "terrace/ops/loss/cut_cross_entropy.h"
#include "terrace/ops/products/products.h"
#include "terrace/profile/record.h"

namespace terrace::ops {
namespace {

// The largest sum that counts, for logits of about 30 above their reference. With larger ones the factors, which divide
// by the sum, could become so small that products round them to zero.
constexpr double largest_sum = 1e15;
// The most that the references of ranks may differ. A rank's exponentials are scaled by exp of the distance between its
// reference and the largest one, which fp32 could not hold if they were much farther apart.
constexpr double largest_spread = 30;
// Rows that are computed again are computed in blocks, whose logits take little memory.
constexpr int64_t block_rows = 64;

constexpr double infinity = std::numeric_limits<double>::infinity();

// Computes the sums of this rank's columns, with the references as `top`; the sum of a row beyond the range is
// infinite.
RowSums exponentials_of(const LossRows& rows, const LossColumns& columns, const at::Tensor& exponentials) {
  const at::Tensor &hidden = rows.hidden, &weight = rows.weight.value;
  const int64_t size = hidden.size(0), num_few = std::min(weight.size(0), loss_reference_logits);
  const auto numbers = hidden.options().dtype(at::kFloat);
  const at::Tensor references = at::empty({size}, numbers), logits = at::empty({size}, numbers);
  {
    const at::Tensor few_weights = weight.narrow(0, 0, num_few), few = at::empty({size, num_few}, numbers);
    const profile::OperationRecord record("terrace::loss_references", [&] {
      return profile::OperationCost{.bytes = 3 * profile::bytes_of({hidden}) + profile::bytes_of({few_weights}) +
                                             profile::bytes_of({few, few, columns.target, references, logits})};
    });
    cpu::matmul(hidden.scalar_type(), {hidden.const_data_ptr(), hidden.stride(0)},
                {few_weights.const_data_ptr(), few_weights.stride(0)}, size, num_few, hidden.size(1),
                {.out = few.mutable_data_ptr(), .out_stride = num_few});
    cpu::loss_references(hidden, weight, columns.target, few.narrow(1, 0, std::min(num_few, columns.counted)),
                         references, logits);
  }
  const at::Tensor parts = at::empty({size, exponential_sums(exponentials.size(1))}, numbers);
  exponentials_into(exponentials, parts, hidden, weight, references, columns.counted);
  const at::Tensor sums = at::empty({size}, numbers.dtype(at::kDouble));
  {
    const profile::OperationRecord record("terrace::row_sums", [&] {
      return profile::OperationCost{.bytes = profile::bytes_of({parts, sums})};
    });
    cpu::row_sums(parts, sums);
  }
  return {references.to(at::kDouble), at::where(sums.le(largest_sum), sums, infinity), logits.to(at::kDouble)};
}

struct GradientRows {
  at::Tensor exponentials, factors;  // undefined without gradients
};

// The sums of all ranks; that of a row beyond the range is infinite on every rank.
RowSums combined(const Cut* cut, const RowSums& own) {
  if (cut == nullptr) return own;
  const SumsOfRanks all = sums_of_all(*cut, own);
  return {all.top, at::where(all.spread.le(largest_spread), all.sum, infinity), all.logit};
}

// Writes losses, factors and the gradients at targets. Returns the rows that are beyond the range, whose losses and
// factors are to be replaced.
std::vector<int64_t> write_losses(const LossRows& rows, const LossColumns& columns, const RowSums& own,
                                  const RowSums& all, const GradientRows& gradient, const at::Tensor& losses) {
  const auto *top = all.top.const_data_ptr<double>(), *sum = all.sum.const_data_ptr<double>(),
             *logit = all.logit.const_data_ptr<double>(), *reference = own.top.const_data_ptr<double>();
  const auto *target = rows.targets.const_data_ptr<int64_t>(), *place = columns.target.const_data_ptr<int64_t>();
  auto* loss = losses.mutable_data_ptr<double>();
  const bool differentiates = gradient.factors.defined();
  auto* factor = differentiates ? gradient.factors.mutable_data_ptr<float>() : nullptr;
  std::vector<int64_t> beyond;
  for_type(rows.hidden.scalar_type(), [&]<typename T>(T) {
    T* exponentials = differentiates ? gradient.exponentials.mutable_data_ptr<T>() : nullptr;
    for (int64_t row = 0; row < losses.size(0); ++row) {
      if (!std::isfinite(sum[row])) beyond.push_back(row);
      const bool counts = target[row] >= 0;
      // Rounding can leave a little less than 0.
      loss[row] = counts ? std::max(std::log(sum[row]) + (top[row] - logit[row]), 0.0) : 0.0;
      if (!differentiates) continue;
      factor[row] =
          counts ? static_cast<float>(rows.gradient_scale * std::exp(reference[row] - top[row]) / sum[row]) : 0;
      if (place[row] < 0) continue;
      const double probability = std::exp(logit[row] - top[row]) / sum[row];
      exponentials[row * gradient.exponentials.size(1) + place[row]] =
          static_cast<T>((probability - 1) * sum[row] * std::exp(top[row] - reference[row]));
    }
  });
  return beyond;
}

// Computes rows from their logits, which are fp32 as the exponents of the other rows are.
void compute_again(const LossRows& rows, const std::vector<int64_t>& beyond, const GradientRows& gradient,
                   const at::Tensor& losses) {
  const auto total = static_cast<int64_t>(beyond.size());
  for (int64_t begin = 0; begin < total; begin += block_rows) {
    const int64_t size = std::min(block_rows, total - begin);
    const at::Tensor index = at::empty({size}, rows.targets.options());
    std::copy_n(beyond.begin() + begin, size, index.mutable_data_ptr<int64_t>());
    const at::Tensor hidden = rows.hidden.index_select(0, index), targets = rows.targets.index_select(0, index);
    const at::Tensor logits = at::empty({size, rows.weight.value.size(0)}, hidden.options().dtype(at::kFloat));
    at::Tensor own_losses = at::empty({size}, losses.options());
    losses_of_logits({hidden, targets, rows.weight, rows.vocabulary, rows.gradient_scale}, logits, own_losses);
    at::Tensor(losses).index_copy_(0, index, own_losses);
    if (!gradient.factors.defined()) continue;
    at::Tensor(gradient.exponentials).index_copy_(0, index, logits.to(hidden.scalar_type()));
    at::Tensor(gradient.factors).index_fill_(0, index, 1.0);
  }
}

}  // namespace

void losses_of_logits(const LossRows& rows, const at::Tensor& logits, const at::Tensor& losses) {
  times_transposed_into(logits, rows.hidden, rows.weight.value, rows.weight.products.forward);
  if (const Cut* cut = cut_in(rows.weight.cut, 0)) {
    cut_cross_entropy(*cut, logits, rows.targets, rows.vocabulary, rows.gradient_scale, losses);
  } else {
    kernels(logits.device()).cross_entropy(logits, rows.targets, rows.vocabulary, rows.gradient_scale, losses);
  }
}

bool has_exponential_losses(const at::Tensor& hidden, const Weight& weight) {
  const bool has_kernel = hidden.scalar_type() == at::kFloat || hidden.scalar_type() == at::kBFloat16;
  return has_kernel && own_products(hidden, weight.products.forward);
}

at::Tensor exponential_losses(const LossRows& rows, const at::Tensor& gradient, const at::Tensor& losses) {
  const Cut* cut = cut_in(rows.weight.cut, 0);
  const LossColumns columns = loss_columns(cut, rows.targets, gradient.size(1), rows.vocabulary);
  const RowSums own = exponentials_of(rows, columns, gradient);
  const RowSums all = combined(cut, own);
  GradientRows written;
  if (rows.gradient_scale != 0.0) {
    written = {gradient, at::empty({losses.size(0)}, rows.hidden.options().dtype(at::kFloat))};
  }
  compute_again(rows, write_losses(rows, columns, own, all, written, losses), written, losses);
  return written.factors;
}

}  // namespace terrace::ops
