// Tensor parallelism of any model (Megatron-LM, arXiv 1909.08053), with the regions between cut along the sequence
// where that is asked for (arXiv 2205.05198): cuts the parameters as their marks say, and gives operations the ranks
// that hold the other parts. The model knows nothing of it. docs/tensor.md says what moves when.
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

class TensorParallel {
 public:
  // Replaces every parameter's value by memory for this rank's part of it, without values, and fills its mark in. The
  // model must not have been sharded before. Every rank of the world calls it at the same time; at size 1 of the axis
  // "tensor" it does nothing.
  TensorParallel(models::Model& model, comm::World& world, const mesh::Mesh& mesh, bool sequence_parallel);
  ~TensorParallel();

  int64_t size() const;
  int64_t member() const;
  // The first of `length` positions that this rank has between layers.
  int64_t first_position(int64_t length) const;

  // Once the optimizer's parts of the gradients are summed over data and micro-batches: adds up what each tensor rank
  // has only a share of. These are keys and values that several ranks have, and, where hidden states are cut along the
  // sequence, whatever is replicated.
  void sum_shares(const std::vector<optim::Shard>& shards);

  comm::Comm& group() { return *group_; }
  // Ranks that have the same keys and values; size 1 where each has its own.
  comm::Comm& sharing() { return *sharing_; }

 private:
  class CommRanks;
  void cut(nn::Parameter& parameter);
  void sum_elements(const std::vector<at::Tensor>& elements, comm::Comm& group);

  bool sequence_parallel_;
  int64_t shared_by_ = 1;  // ranks that have the same shared rows
  std::unique_ptr<comm::Comm> group_, sharing_;
  std::unique_ptr<CommRanks> ranks_;
  std::deque<ops::Cut> cuts_;  // that parameters point to
};

}  // namespace terrace::parallel
