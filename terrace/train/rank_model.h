// The model of one rank, ready to train: cut as the layout says, with the optimizer of its shards, the step that
// updates them, and initial values. The trainer, verify and the tests assemble a rank here.
#pragma once

#include <cstdint>
#include <optional>

#include "terrace/comm/comm.h"
#include "terrace/config/config.h"
#include "terrace/models/model.h"
#include "terrace/optim/adamw.h"
#include "terrace/parallel/cut_model.h"
#include "terrace/parallel/outer_steps.h"
#include "terrace/schedule/resolved_layout.h"
#include "terrace/train/training_step.h"

namespace terrace::train {

struct RankModel {
  // Cuts `model`, whose parameters may be without memory, for this rank. Of the configuration it reads [layout],
  // [optimizer], train.recompute and train.seed. Collective: every rank of the world calls it; the model and the world
  // outlive the object.
  RankModel(models::Model& model, comm::World& world, const schedule::ResolvedLayout& layout,
            const config::Config& config, const parallel::ShardingOptions& sharding);

  parallel::CutModel cut;
  optim::AdamW optimizer;  // of the shards of `cut`
  // The updates every layout.outer_every steps; none where there is one copy of the optimizer states.
  std::optional<parallel::OuterSteps> outer;
  TrainingStep step;

  // Makes the outer update if one follows this step, which may have been left out.
  void update_copies(uint64_t seed, int64_t step_done);
};

}  // namespace terrace::train
