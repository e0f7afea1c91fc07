// Operations whose weight is cut over ranks: what crosses between the ranks at their edges, and its adjoint. Operations
// know the ranks by this interface only; on one rank there is no Cut and nothing happens.
//
// Megatron-LM's tensor parallelism (Shoeybi et al., arXiv 1909.08053, section 3) and its sequence parallelism
// (Korthikanti et al., arXiv 2205.05198, section 4.2).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace terrace::ops {

// The ranks that hold the parts of a weight. All of them make the same calls in the same order. Tensors are contiguous
// and stay as they are until wait() returns.
class Ranks {
 public:
  class Pending {
   public:
    virtual ~Pending() = default;  // waits where wait() has not been called
    virtual void wait() = 0;
  };

  virtual ~Ranks() = default;
  virtual int64_t size() const = 0;
  virtual int64_t member() const = 0;
  // `data` becomes its sum over the ranks.
  virtual std::unique_ptr<Pending> sum(const at::Tensor& data, const char* what) = 0;
  // `to` [..] becomes this member's block of the sum of `from` [size(), ..].
  virtual std::unique_ptr<Pending> sum_scatter(const at::Tensor& from, const at::Tensor& to, const char* what) = 0;
  // `whole` [size(), ..] gets `own` [..] of each.
  virtual std::unique_ptr<Pending> gather(const at::Tensor& own, const at::Tensor& whole, const char* what) = 0;
};

// How a weight is cut, as the operation that uses it sees it.
struct Cut {
  Ranks* ranks = nullptr;  // outlives the operation and its backward
  int64_t dim = -1;        // of the weight: 0 by outputs (rows of a table), 1 by inputs; -1: not cut
  // Between the operations with cut weights, hidden states [B, T, D] are cut along T: each rank has T / size()
  // positions of every sequence, in rank order. Else every rank has all of them.
  bool sequence = false;
};

// The cut where it is one in `dim`, else null.
inline const Cut* cut_in(const Cut* cut, int64_t dim) { return cut != nullptr && cut->dim == dim ? cut : nullptr; }

// x [.., D] as [N, D].
inline at::Tensor rows_of(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

// Hidden states with all positions [B, T, D], of the rank's own where these are cut along the sequence. Without a cut,
// or where they are not, x itself.
at::Tensor whole_sequence(const Cut* cut, const at::Tensor& x, const char* what);

// The rank's own positions of x, a tensor of all [B, T, ..]; x itself as above.
at::Tensor own_positions(const Cut* cut, const at::Tensor& x);

// The sum over the ranks of hidden states of which each has a share [B, T, D]: all positions, or the rank's own where
// these are cut along the sequence. Under way from construction to finish(). Without a cut the sum is `share` itself.
class SharesSum {
 public:
  SharesSum(const Cut* cut, const at::Tensor& share, const char* what);
  at::Tensor finish();

 private:
  at::Tensor share_, result_;  // before pending_: they outlive it
  std::unique_ptr<Ranks::Pending> pending_;
};

// Hidden states of `sizes` [.., D] of which every rank computes a share, summed as SharesSum does, part by part while
// the next part is computed. `compute` writes rows [begin, begin + rows.size(0)) of the share as [N, D] into `rows`.
at::Tensor sum_while_computing(const Cut& cut, const std::vector<int64_t>& sizes, const at::TensorOptions& options,
                               const std::function<void(const at::Tensor& rows, int64_t begin)>& compute,
                               const char* what);

}  // namespace terrace::ops
