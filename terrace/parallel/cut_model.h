// A model as one rank of a mesh has it: everything that cuts it up, applied in the one order in which it works.
#pragma once

#include <cstdint>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/config/config.h"
#include "terrace/mesh/mesh.h"
#include "terrace/models/model.h"
#include "terrace/optim/gradient_norm.h"
#include "terrace/optim/shard.h"
#include "terrace/parallel/groups.h"
#include "terrace/parallel/sharded.h"
#include "terrace/parallel/stage.h"
#include "terrace/parallel/tensor.h"
#include "terrace/schedule/pipeline.h"
#include "terrace/schedule/step.h"

namespace terrace::parallel {

class CutModel {
 public:
  // `partition` has the parts of the layout's pipeline: schedule::partition() of the model's unit table. Every rank of
  // the world calls it at the same time; model and world outlive it. Aborts unless the elements that all ranks together
  // count are those of the whole model: no layer is missing on a stage or there twice.
  CutModel(models::Model& model, const schedule::Partition& partition, comm::World& world, const mesh::Mesh& mesh,
           const config::LayoutConfig& layout, const ShardingOptions& options);

  // What this rank does in a step with so many micro-batches; valid until the next call.
  const schedule::StepInstructions& training_step(int64_t micro_batches);
  // What it does for the loss of one micro-batch without gradients.
  const schedule::StepInstructions& evaluation() const { return evaluation_; }
  // Ranks among which hidden states are cut along the sequence.
  int64_t sequence_ranks() const { return layout_.sequence_parallel ? layout_.tensor : 1; }
  // Whether this rank, among those that compute the same micro-batches, is the one that has their loss.
  bool has_loss() const { return tensor.member() == 0 && stage.has_last(); }

  // Once the gradients of this rank's shards are summed over data and micro-batches: adds up those of parameters that
  // other stages and tensor ranks hold too.
  void sum_shared_gradients();
  optim::GradientNorm gradient_norm();

  TensorParallel tensor;
  Stage stage;
  DataGroups groups;
  Sharded sharded;
  std::vector<optim::Shard> shards;  // of `sharded`

 private:
  void check_whole(models::Model& model);

  config::LayoutConfig layout_;
  schedule::Movements movements_;
  int64_t micro_batches_ = 0;  // of training_step_
  schedule::StepInstructions training_step_, evaluation_;
};

}  // namespace terrace::parallel
