// The model of one rank of a mesh: applies tensor and context parallelism, pipeline stages and sharded data parallelism
// in order.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/config/config.h"
#include "terrace/mesh/mesh.h"
#include "terrace/models/model.h"
#include "terrace/optim/gradient_norm.h"
#include "terrace/optim/shard.h"
#include "terrace/parallel/context.h"
#include "terrace/parallel/data_ranks.h"
#include "terrace/parallel/experts.h"
#include "terrace/parallel/first_gradients.h"
#include "terrace/parallel/groups.h"
#include "terrace/parallel/sharded.h"
#include "terrace/parallel/stage.h"
#include "terrace/parallel/tensor.h"
#include "terrace/schedule/pipeline/pipeline.h"
#include "terrace/schedule/pipeline/posting.h"
#include "terrace/schedule/resolved_layout.h"
#include "terrace/schedule/step/step.h"

namespace terrace::parallel {

class CutModel {
 public:
  // `resolved` is `layout` on the ranks of the world. Collective: every rank of the world calls it; the model and the
  // world outlive the object. Aborts if the sum of the elements that the ranks count is not the size of the whole
  // model, as when a layer is on no stage or on two.
  CutModel(models::Model& model, comm::World& world, const schedule::ResolvedLayout& resolved,
           const config::LayoutConfig& layout, const ShardingOptions& options);

  // The instructions of this rank for a step with `micro_batches` micro-batches; valid until the next call.
  const schedule::StepInstructions& training_step(int64_t micro_batches);
  // The instructions of this rank for such a step with Posting::careful, in new memory.
  schedule::StepInstructions careful_training_step(int64_t micro_batches) const;
  // The instructions of this rank for the loss of one micro-batch without gradients.
  const schedule::StepInstructions& evaluation() const { return evaluation_; }
  // The communicators that this rank's thread uses in a step.
  std::vector<comm::Comm*> groups_of_step();
  // The number of ranks among which hidden states are divided along the sequence.
  int64_t sequence_ranks() const { return layout_.sequence_parallel ? layout_.tensor : 1; }
  // Whether this rank reports the loss, as one of the ranks that compute the same micro-batches does.
  bool has_loss() const { return tensor.member() == 0 && stage.has_last(); }

  // Sums the gradients of parameters that other stages or tensor ranks hold too. Called when the gradients of this
  // rank's shards are summed over micro-batches and data-parallel ranks.
  void sum_shared_gradients();
  // The norm of the gradients of the whole model. Where copies make steps by themselves it is that of this rank's copy,
  // but not finite, with the first bad parameter of some copy, if that of any copy is not.
  optim::GradientNorm gradient_norm();
  // Sums numbers over the ranks of this rank's copy, or over all ranks where there are no such copies.
  void sum_over_copy(std::vector<double>& numbers, const char* what);

  mesh::Mesh mesh;
  TensorParallel tensor;
  ContextParallel context;
  ExpertParallel experts;
  Stage stage;
  DataGroups groups;
  std::unique_ptr<DataGroups> expert_groups;  // null: every rank has all experts of its layers
  DataRanks data_ranks;
  Sharded sharded;
  FirstGradients first_gradients;
  std::vector<optim::Shard> shards;  // the shards of `sharded`

 private:
  void check_whole(models::Model& model);
  schedule::StepInstructions make_training_step(int64_t micro_batches, schedule::Posting posting) const;

  config::LayoutConfig layout_;
  schedule::Movements movements_;
  int64_t micro_batches_ = 0;  // the number of micro-batches of training_step_
  schedule::StepInstructions training_step_, evaluation_;
};

}  // namespace terrace::parallel
