// Assembles a rank's model in the order in which the parts need each other.
#include "terrace/train/rank_model.h"

#include "terrace/nn/module.h"
#include "terrace/parallel/states.h"
#include "terrace/schedule/recompute.h"

namespace terrace::train {

RankModel::RankModel(models::Model& model, comm::World& world, const schedule::ResolvedLayout& layout,
                     const config::Config& config, const parallel::ShardingOptions& sharding)
    : cut(model, world, layout, config.layout, sharding),
      optimizer(cut.shards, config.optimizer),
      step(model, cut, optimizer, schedule::segment_recompute(layout.partition(), layout.placement, config)) {
  parallel::set_initial_values(cut.sharded, optimizer, config.train.seed);
  nn::initialize(cut.stage.buffers(), config.train.seed);
  cut.sharded.finish_update();
  if (cut.groups.copy) outer.emplace(cut.sharded, optimizer, cut.groups, config);
}

void RankModel::update_copies(uint64_t seed, int64_t step_done) {
  if (outer && outer->follows(step_done)) outer->update(seed, step_done);
}

}  // namespace terrace::train
