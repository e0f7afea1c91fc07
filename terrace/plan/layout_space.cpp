// Enumerates the values of each key, the outer ones first, and leaves out what does not fit as early as possible.
#include "terrace/plan/layout_space.h"

#include <algorithm>
#include <array>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/config/divisors.h"
#include "terrace/config/family.h"
#include "terrace/mesh/shards.h"
#include "terrace/plan/rank_share.h"
#include "terrace/plan/variation.h"

namespace terrace::plan {
namespace {

using config::Config;
using config::PipelineSchedule;
using config::Recompute;
using config::Sharding;

struct ScheduleChoice {
  PipelineSchedule schedule;
  int64_t chunks;
};

std::vector<ScheduleChoice> schedules_of(int64_t stages, int64_t layers) {
  std::vector<ScheduleChoice> list = {{PipelineSchedule::one_f_one_b, 1}};
  if (stages == 1) return list;
  list.push_back({PipelineSchedule::zb_h1, 1});
  list.push_back({PipelineSchedule::zb_v, 2});
  for (const int64_t chunks : {2, 3, 4, 6}) {
    if (stages * chunks <= layers) list.push_back({PipelineSchedule::interleaved, chunks});
  }
  return list;
}

// The words that differ in a group from those before them on so many data-parallel ranks.
std::vector<Sharding> shardings_of(int64_t data_ranks) {
  if (data_ranks == 1) return {Sharding::ddp};
  return {Sharding::ddp, Sharding::zero1, Sharding::zero2, Sharding::zero3, Sharding::node, Sharding::three_level};
}

class Enumeration {
 public:
  Enumeration(const Config& config, int64_t devices, int64_t ranks_per_node, int64_t most_tensor)
      : config_(config), devices_(devices), ranks_per_node_(ranks_per_node), most_tensor_(most_tensor) {}

  std::vector<Config> list() {
    const int64_t layers = config_.family->layers(config_);
    for (const int64_t tensor : config::divisors_up_to(devices_, most_tensor_)) {
      for (const int64_t pipeline : config::divisors_up_to(devices_ / tensor, layers)) {
        const int64_t data = devices_ / tensor / pipeline;
        if (config_.train.global_batch % data != 0) continue;
        for (const int64_t micro_batch : config::divisors_up_to(config_.train.global_batch / data, 64)) {
          for (const ScheduleChoice& choice : schedules_of(pipeline, layers)) {
            vary(tensor, pipeline, data, micro_batch, choice);
          }
        }
      }
    }
    return std::move(list_);
  }

 private:
  void vary(int64_t tensor, int64_t pipeline, int64_t data, int64_t micro_batch, const ScheduleChoice& choice) {
    Config config = config_;
    config.layout.tensor = tensor;
    config.layout.pipeline = pipeline;
    config.layout.schedule = choice.schedule;
    config.layout.chunks = choice.chunks;
    config.layout.stage_layers.clear();
    config.layout.shard_weights = config.layout.shard_gradients = config.layout.shard_optimizer = {};
    config.layout.shard_group = 0;
    config.train.micro_batch = micro_batch;
    config.layout.sequence_parallel = false;
    config.layout.sharding = Sharding::ddp;
    if (!holds_rules(config)) return;
    using Order = std::vector<std::string>;
    std::vector<Order> orders = {{"pipeline", "data", "tensor"}};
    if (pipeline > 1 && data > 1) orders.push_back({"data", "pipeline", "tensor"});
    for (const Order& order : orders) {
      config.layout.order = order;
      for (const Sharding sharding : shardings_of(data)) {
        config.layout.sharding = sharding;
        if (!fits_ranks(config)) continue;
        for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
          config.train.recompute = recompute;
          for (const bool sequence_parallel : {false, true}) {
            config.layout.sequence_parallel = sequence_parallel;
            if (sequence_parallel && (tensor == 1 || !holds_rules(config))) continue;
            list_.push_back(config);
          }
        }
      }
    }
  }

  bool fits_ranks(const Config& config) const {
    try {
      check_ranks(config, devices_, ranks_per_node_);
    } catch (const UserError&) {
      return false;
    }
    return true;
  }

  const Config& config_;
  int64_t devices_, ranks_per_node_, most_tensor_;
  std::vector<Config> list_;
};

}  // namespace

std::vector<config::Config> legal_layouts(const config::Config& config, int64_t devices, int64_t ranks_per_node,
                                          int64_t most_tensor) {
  return Enumeration(config, devices, ranks_per_node, most_tensor).list();
}

}  // namespace terrace::plan
