// The communication of operations whose weight is cut over ranks: Megatron-LM's tensor parallelism (Shoeybi et al.,
// arXiv 1909.08053, section 3) and sequence parallelism (Korthikanti et al., arXiv 2205.05198, section 4.2).
//
// Operations know the ranks only by the interface below. On one rank there is no Cut and no communication.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace terrace::ops {

// The ranks that hold the parts of a weight. All of them make the same calls in the same order. Tensors are contiguous
// and must not be changed until wait() returns.
class Ranks {
 public:
  class Pending {
   public:
    virtual ~Pending() = default;  // waits if wait() was not called
    virtual void wait() = 0;
  };

  virtual ~Ranks() = default;
  virtual int64_t size() const = 0;
  virtual int64_t member() const = 0;
  // `data` becomes its sum over the ranks.
  virtual std::unique_ptr<Pending> sum(const at::Tensor& data, const char* what) = 0;
  // `to` [..] becomes this member's block of the sum of `from` [size(), ..].
  virtual std::unique_ptr<Pending> sum_scatter(const at::Tensor& from, const at::Tensor& to, const char* what) = 0;
  // `whole` [size(), ..] gets `own` [..] of each member.
  virtual std::unique_ptr<Pending> gather(const at::Tensor& own, const at::Tensor& whole, const char* what) = 0;
};

// Ranks that also move tensors to one another, as those among which positions are cut.
class MovingRanks : public Ranks {
 public:
  // Block i of `from` [size(), ..] goes to block member() of member i's `to` [size(), ..].
  virtual std::unique_ptr<Pending> exchange(const at::Tensor& from, const at::Tensor& to, const char* what) = 0;
  // Sends `own` to the member `distance` places on, the first one following the last, and `to` gets that of the member
  // as far before; not a multiple of size().
  virtual std::unique_ptr<Pending> shift(const at::Tensor& own, const at::Tensor& to, int64_t distance,
                                         const char* what) = 0;
  // The first sent[0] rows of `from` [.., ..] go to member 0, the next sent[1] to member 1 and so on; `to` gets
  // received[i] rows of member i, in the order of the members. Nothing is sent where there are no rows.
  virtual std::unique_ptr<Pending> exchange_rows(const at::Tensor& from, const std::vector<int64_t>& sent,
                                                 const at::Tensor& to, const std::vector<int64_t>& received,
                                                 const char* what) = 0;
};

// The way in which the weight of an operation is cut.
struct Cut {
  Ranks* ranks = nullptr;  // outlives the operation and its backward
  int64_t dim = -1;        // of the weight: 0 by outputs (rows of a table), 1 by inputs; -1: not cut
  // Sequence parallelism: between the operations with cut weights, hidden states [B, T, D] are cut along T. Each rank
  // has T / size() positions of every sequence, in the order of the ranks. If false, every rank has all positions.
  bool sequence = false;
};

// `cut` if the weight is cut in `dim`, else null.
inline const Cut* cut_in(const Cut* cut, int64_t dim) { return cut != nullptr && cut->dim == dim ? cut : nullptr; }

// x [.., D] as [N, D].
inline at::Tensor rows_of(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

// Gathers x, this rank's positions of hidden states, to all positions [B, T, D]; x itself without a cut or without
// sequence parallelism.
at::Tensor whole_sequence(const Cut* cut, const at::Tensor& x, const char* what);

// This rank's positions of x [B, T, ..], a tensor of all positions; x itself in the same cases.
at::Tensor own_positions(const Cut* cut, const at::Tensor& x);

// The place of this rank's first position among all, given the number of its own positions; 0 without a cut or without
// sequence parallelism.
int64_t first_own_position(const Cut* cut, int64_t own_positions);

// Gathers the columns of all ranks: `own` [B, T, D / ranks], the output of a layer cut by outputs, to [B, T, D]. `own`
// itself if the weight is not cut so. No gradients.
at::Tensor whole_columns(const Cut* cut, const at::Tensor& own, const char* what);

// The sum over the ranks of shares [B, T, D] of hidden states: all positions of the sum or, with sequence parallelism,
// this rank's positions. The constructor begins the sum, finish() waits for it. Without a cut the sum is `share`
// itself.
class SharesSum {
 public:
  SharesSum(const Cut* cut, const at::Tensor& share, const char* what);
  at::Tensor finish();

 private:
  at::Tensor share_, result_;  // declared before pending_, so that they outlive it
  std::unique_ptr<Ranks::Pending> pending_;
};

// Computes this rank's share of hidden states of `sizes` [.., D] in pieces, and sums each piece as SharesSum does while
// the next piece is computed. `compute` writes rows [begin, begin + rows.size(0)) of the share as [N, D] into `rows`.
at::Tensor sum_while_computing(const Cut& cut, const std::vector<int64_t>& sizes, const at::TensorOptions& options,
                               const std::function<void(const at::Tensor& rows, int64_t begin)>& compute,
                               const char* what);

}  // namespace terrace::ops
