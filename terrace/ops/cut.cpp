// Implements gathers and sums of hidden states between ranks.
#include "terrace/ops/cut.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/base/operation_limits.h"

namespace terrace::ops {
namespace {

// [B, T, ..] as blocks of positions [ranks, B, T / ranks, ..], one for each rank.
at::Tensor by_rank(const at::Tensor& x, int64_t ranks) {
  TERRACE_CHECK(x.dim() >= 2 && x.size(1) % ranks == 0, "{} positions on {} ranks", x.dim() < 2 ? 0 : x.size(1), ranks);
  return x.unflatten(1, {ranks, x.size(1) / ranks}).transpose(0, 1);
}

}  // namespace

at::Tensor whole_sequence(const Cut* cut, const at::Tensor& x, const char* what) {
  if (cut == nullptr || !cut->sequence) return x;
  std::vector<int64_t> shape = x.sizes().vec();
  shape.insert(shape.begin(), cut->ranks->size());
  const at::Tensor whole = at::empty(shape, x.options().requires_grad(false));
  const at::Tensor own = x.detach().contiguous();
  cut->ranks->gather(own, whole, what)->wait();
  return whole.transpose(0, 1).flatten(1, 2);  // [B, T, ..]: a view where B is 1
}

at::Tensor whole_columns(const Cut* cut, const at::Tensor& own, const char* what) {
  if (cut_in(cut, 0) == nullptr) return own;
  std::vector<int64_t> shape = own.sizes().vec();
  shape.insert(shape.begin(), cut->ranks->size());
  const at::Tensor parts = at::empty(shape, own.options());  // [ranks, B, T, D / ranks]
  cut->ranks->gather(own.contiguous(), parts, what)->wait();
  return parts.movedim(0, 2).flatten(2, 3);
}

at::Tensor own_positions(const Cut* cut, const at::Tensor& x) {
  if (cut == nullptr || !cut->sequence) return x;
  return by_rank(x, cut->ranks->size()).select(0, cut->ranks->member());
}

int64_t first_own_position(const Cut* cut, int64_t own_positions) {
  if (cut == nullptr || !cut->sequence) return 0;
  return cut->ranks->member() * own_positions;
}

SharesSum::SharesSum(const Cut* cut, const at::Tensor& share, const char* what) {
  if (cut == nullptr) {
    result_ = share;
  } else if (cut->sequence) {
    share_ = by_rank(share, cut->ranks->size()).contiguous();
    result_ = at::empty(share_.sizes().slice(1), share.options());
    pending_ = cut->ranks->sum_scatter(share_, result_, what);
  } else {
    result_ = share.contiguous();
    pending_ = cut->ranks->sum(result_, what);
  }
}

at::Tensor SharesSum::finish() {
  if (pending_) pending_->wait();
  pending_.reset();
  share_.reset();
  return result_;
}

at::Tensor sum_while_computing(const Cut& cut, const std::vector<int64_t>& sizes, const at::TensorOptions& options,
                               const std::function<void(const at::Tensor&, int64_t)>& compute, const char* what) {
  // With sequence parallelism a piece is whole sequences, as the positions of a sequence go to different ranks.
  const int64_t unit = cut.sequence ? sizes.at(1) : 1;
  int64_t rows = 1;
  for (size_t dim = 0; dim + 1 < sizes.size(); ++dim) rows *= sizes[dim];
  const int64_t piece = summed_piece_rows(rows, unit);
  at::Tensor share = at::empty(sizes, options.requires_grad(false));
  std::vector<SharesSum> sums;
  std::vector<at::Tensor> results;
  for (int64_t begin = 0; begin < rows; begin += piece) {
    const at::Tensor own = share.view({rows, -1}).narrow(0, begin, std::min(piece, rows - begin));
    compute(own, begin);
    sums.emplace_back(&cut, cut.sequence ? own.view({-1, sizes.at(1), sizes.at(2)}) : own, what);
  }
  for (SharesSum& sum : sums) results.push_back(sum.finish());
  if (!cut.sequence) return share;
  return results.size() == 1 ? results.front() : at::cat(results);
}

}  // namespace terrace::ops
