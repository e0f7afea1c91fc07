// Cuts parameters, and implements the exchanges of operations on a communicator.
#include "terrace/parallel/tensor.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/parallel/comm_ranks.h"
#include "terrace/parallel/transfer.h"

namespace terrace::parallel {
namespace {

// The number of ranks that hold the same shared rows.
int64_t ranks_that_share(const std::vector<nn::Parameter*>& parameters, int64_t ranks) {
  int64_t sharing = 1;
  for (const nn::Parameter* parameter : parameters) {
    const ParamMark& mark = parameter->mark;
    if (mark.shared > 0 && mark.groups < ranks) sharing = std::max(sharing, ranks / mark.groups);
  }
  return sharing;
}

// The `size` neighbouring ranks along the tensor axis that hold the same shared rows as `rank`.
mesh::Group sharing_group(const mesh::Mesh& mesh, int64_t rank, int64_t size) {
  const std::vector<int64_t> all = mesh.group(rank, "tensor").ranks;
  const int64_t first = mesh.coordinate(rank, "tensor") / size * size;
  return {.name = "tensor_sharing", .ranks = std::vector<int64_t>(all.begin() + first, all.begin() + first + size)};
}

}  // namespace

TensorParallel::TensorParallel(models::Model& model, comm::World& world, const mesh::Mesh& mesh, bool sequence_parallel)
    : sequence_parallel_(sequence_parallel), group_(world.connect(mesh.group(world.rank(), "tensor"))) {
  const std::vector<nn::Parameter*> parameters = model.parameters();
  shared_by_ = ranks_that_share(parameters, group_->size());
  sharing_ = world.connect(sharing_group(mesh, world.rank(), shared_by_));
  ranks_ = std::make_unique<CommRanks>(*group_);
  if (group_->size() == 1) return;
  for (nn::Parameter* parameter : parameters) cut(*parameter);
}

TensorParallel::~TensorParallel() = default;

int64_t TensorParallel::size() const { return group_->size(); }
int64_t TensorParallel::member() const { return group_->member(); }

void TensorParallel::cut(nn::Parameter& parameter) {
  ParamMark& mark = parameter.mark;
  const bool sharded = mark.kind == ParamMark::Kind::sharded && mark.axis == "tensor";
  cuts_.push_back({.ranks = ranks_.get(), .dim = sharded ? mark.dim : -1, .sequence = sequence_parallel_});
  parameter.cut = &cuts_.back();
  if (!sharded) {
    mark.counted = member() == 0;
    return;
  }
  mark.row_ranges = row_ranges_of(mark, member(), size());
  parameter.value = at::empty(local_shape(mark), parameter.value.options()).set_requires_grad(true);
}

int64_t TensorParallel::first_share(const nn::Parameter& parameter) const {
  const ParamMark& mark = parameter.mark;
  const int64_t size = parameter.value.numel();
  if (group_->size() == 1) return size;
  if (mark.kind == ParamMark::Kind::replicated) return sequence_parallel_ || mark.gradient_in_shares ? 0 : size;
  if (shared_by_ == 1 || mark.shared == 0) return size;
  // The shared rows come last, at the same place on all ranks that hold them.
  return mark.row_ranges.front().size * (size / parameter.value.size(0));
}

void TensorParallel::sum_shares(const std::vector<optim::Shard>& shards) {
  if (group_->size() == 1) return;
  std::vector<at::Tensor> replicated, shared;
  for (const optim::Shard& shard : shards) {
    for (const optim::ShardPiece& piece : shard.pieces) {
      const int64_t from = std::max(piece.begin, first_share(*piece.parameter));
      if (from >= piece.end) continue;
      const bool is_replicated = piece.parameter->mark.kind == ParamMark::Kind::replicated;
      (is_replicated ? replicated : shared)
          .push_back(shard.gradient.narrow(0, piece.at + from - piece.begin, piece.end - from));
    }
  }
  sum_elements(replicated, *group_);
  sum_elements(shared, *sharing_);
}

// Sums all elements in one call, since there are many small tensors.
void TensorParallel::sum_elements(const std::vector<at::Tensor>& elements, comm::Comm& group) {
  if (elements.empty()) return;
  const at::NoGradGuard no_grad;
  const at::Tensor together = at::cat(elements);
  Transfer::all_reduce(group, together, together.scalar_type(), {.what = "sum shares of gradients", .phase = "step"})
      .finish();
  int64_t at = 0;
  for (const at::Tensor& own : elements) {
    own.copy_(together.narrow(0, at, own.numel()));
    at += own.numel();
  }
}

}  // namespace terrace::parallel
