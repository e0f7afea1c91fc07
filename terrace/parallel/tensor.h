// Tensor parallelism of any model (Megatron-LM, arXiv 1909.08053), optionally with sequence parallelism between the cut
// layers (arXiv 2205.05198). It cuts the parameters according to their marks and passes the group of ranks to the
// operations; the model's code does not change. docs/tensor.md has the communication.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/mesh/mesh.h"
#include "terrace/models/model.h"
#include "terrace/ops/cut.h"
#include "terrace/optim/shard.h"

namespace terrace::parallel {

class CommRanks;

class TensorParallel {
 public:
  // Replaces the value of each cut parameter by an uninitialized tensor for this rank's part, and sets this rank's rows
  // in its mark. The model must not have been sharded before. Collective: every rank of the world calls it. On an axis
  // "tensor" of size 1 nothing is cut.
  TensorParallel(models::Model& model, comm::World& world, const mesh::Mesh& mesh, bool sequence_parallel);
  ~TensorParallel();

  int64_t size() const;
  int64_t member() const;

  // Sums the gradients of which each tensor rank has only a share: those of keys and values that several ranks hold,
  // those of replicated parameters that the heads share and, with sequence parallelism, of all replicated parameters.
  // Called when the optimizer parts of the gradients
  // are summed over micro-batches and data-parallel ranks.
  void sum_shares(const std::vector<optim::Shard>& shards);
  // The first element of the parameter's part on this rank from which on the rank has only shares of the gradient; the
  // number of elements if it has none.
  int64_t first_share(const nn::Parameter& parameter) const;

  comm::Comm& group() { return *group_; }
  // The ranks that hold the same keys and values; of size 1 if each rank has its own.
  comm::Comm& sharing() { return *sharing_; }

 private:
  void cut(nn::Parameter& parameter);
  void sum_elements(const std::vector<at::Tensor>& elements, comm::Comm& group);

  bool sequence_parallel_;
  int64_t shared_by_ = 1;  // the number of ranks that hold the same shared rows
  std::unique_ptr<comm::Comm> group_, sharing_;
  std::unique_ptr<CommRanks> ranks_;
  std::deque<ops::Cut> cuts_;  // parameters point to them
};

}  // namespace terrace::parallel
