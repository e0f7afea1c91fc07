// Enumerates the values of each key, the outer ones first, and leaves out what does not fit as early as possible.
#include "terrace/plan/layouts/layout_space.h"

#include <algorithm>
#include <array>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/config/divisors.h"
#include "terrace/config/family.h"
#include "terrace/mesh/shards.h"
#include "terrace/plan/time/variation.h"
#include "terrace/schedule/description.h"
#include "terrace/schedule/rank_share.h"

namespace terrace::plan {
namespace {

using config::Config;
using config::PipelineSchedule;
using config::Recompute;
using config::RecomputeLayers;
using config::Sharding;
using config::TrainConfig;

struct ScheduleChoice {
  PipelineSchedule schedule;
  int64_t chunks;
};

class Enumeration {
 public:
  Enumeration(const Config& config, int64_t devices, int64_t ranks_per_node, int64_t most_tensor,
              const LayoutLimits& limits)
      : config_(config),
        devices_(devices),
        ranks_per_node_(ranks_per_node),
        most_tensor_(most_tensor),
        limits_(limits),
        // With layout.outer_every another sharding would be another training.
        keeps_sharding_(
            config.layout.outer_every > 0 || keeps("layout.sharding") || keeps("layout.shard_group") ||
            (keeps("layout.shard_weights") && keeps("layout.shard_gradients") && keeps("layout.shard_optimizer"))),
        takes_one_(!schedule::description_of(config).why_one_micro_batch(config).empty()) {
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      Config varied = config;
      varied.train.recompute = recompute;
      if (holds_rules(varied)) recomputes_.push_back(recompute);
    }
  }

  std::vector<Config> list() {
    const int64_t layers = config_.family->settings.layers(config_), given_micro_batch = config_.train.micro_batch;
    using config::divisors_up_to;
    const int64_t devices = devices_ / config_.layout.context;  // of each context rank
    for (const int64_t tensor : sizes("layout.tensor", config_.layout.tensor, devices, most_tensor_)) {
      for (const int64_t pipeline : sizes("layout.pipeline", config_.layout.pipeline, devices / tensor, layers)) {
        const int64_t data = devices / tensor / pipeline;
        if (config_.train.global_batch % data != 0) continue;
        const std::vector<ScheduleChoice> schedules = schedules_of(pipeline, layers);
        const int64_t share = config_.train.global_batch / data;
        std::vector<int64_t> micro_batches = {given_micro_batch};
        if (config_.train.micro_batch_sizes.empty()) {
          micro_batches = choices("train.micro_batch", given_micro_batch,
                                  takes_one_ ? std::vector<int64_t>{share} : divisors_up_to(share, 64));
        }
        for (const int64_t micro_batch : micro_batches) {
          for (const ScheduleChoice& choice : schedules) vary(tensor, pipeline, data, micro_batch, choice);
        }
      }
    }
    return std::move(list_);
  }

 private:
  bool keeps(const std::string& key) const { return limits_.kept.contains(key); }

  // The given value alone if the key is kept.
  template <typename Value>
  std::vector<Value> choices(const std::string& key, const Value& given, std::vector<Value> all) const {
    return keeps(key) ? std::vector<Value>{given} : std::move(all);
  }

  // Divisors of the ranks that are left to divide; none if the given one does not divide them.
  std::vector<int64_t> sizes(const std::string& key, int64_t given, int64_t ranks, int64_t most) const {
    if (keeps(key) && ranks % given != 0) return {};
    return keeps(key) ? std::vector<int64_t>{given} : config::divisors_up_to(ranks, most);
  }

  std::vector<ScheduleChoice> schedules_of(int64_t stages, int64_t layers) const {
    std::vector<ScheduleChoice> list = {{PipelineSchedule::one_f_one_b, 1}};
    if (stages > 1) {
      list.push_back({PipelineSchedule::zb_h1, 1});
      list.push_back({PipelineSchedule::zb_v, 2});
      // GPipe is no faster than 1F1B and takes more memory.
      if (keeps("layout.schedule")) list.push_back({PipelineSchedule::gpipe, 1});
      for (const int64_t chunks : choices("layout.chunks", config_.layout.chunks, {2, 3, 4, 6})) {
        if (chunks > 1 && (stages * chunks <= layers || keeps("layout.chunks"))) {
          list.push_back({PipelineSchedule::interleaved, chunks});
        }
      }
    }
    std::erase_if(list, [&](const ScheduleChoice& choice) {
      return (keeps("layout.schedule") && choice.schedule != config_.layout.schedule) ||
             (keeps("layout.chunks") && choice.chunks != config_.layout.chunks);
    });
    return list;
  }

  // The words that differ in a group from those before them on so many data-parallel ranks.
  std::vector<Sharding> shardings_of(int64_t data_ranks) const {
    if (keeps_sharding_) return {config_.layout.sharding};
    if (data_ranks == 1) return {Sharding::ddp};
    return {Sharding::ddp, Sharding::zero1, Sharding::zero2, Sharding::zero3, Sharding::node, Sharding::three_level};
  }

  // A kept word of sharding stays with the groups that the configuration gives instead of the word's.
  void clear_groups(config::LayoutConfig& layout) const {
    if (keeps_sharding_) return;
    if (!keeps("layout.shard_weights")) layout.shard_weights = {};
    if (!keeps("layout.shard_gradients")) layout.shard_gradients = {};
    if (!keeps("layout.shard_optimizer")) layout.shard_optimizer = {};
    layout.shard_group = 0;
    layout.sharding = Sharding::ddp;
  }

  void vary(int64_t tensor, int64_t pipeline, int64_t data, int64_t micro_batch, const ScheduleChoice& choice) {
    Config config = config_;
    config.layout.tensor = tensor;
    config.layout.pipeline = pipeline;
    config.layout.schedule = choice.schedule;
    config.layout.chunks = choice.chunks;
    if (!keeps("layout.stage_layers")) config.layout.stage_layers.clear();
    if (!keeps("layout.recompute_layers")) config.layout.recompute_layers = {};
    clear_groups(config.layout);
    config.train.micro_batch = micro_batch;
    config.layout.sequence_parallel = false;
    if (!holds_rules(config)) return;
    using Order = std::vector<std::string>;
    std::vector<Order> orders = {{"pipeline", "data", "tensor"}};
    if (pipeline > 1 && data > 1) orders.push_back({"data", "pipeline", "tensor"});
    for (const Order& order : choices("layout.order", config_.layout.order, std::move(orders))) {
      config.layout.order = order;
      for (const Sharding sharding : shardings_of(data)) {
        config.layout.sharding = sharding;
        if (fits_ranks(config)) vary_computation(config);
      }
    }
  }

  void vary_computation(Config& config) {
    const TrainConfig& train = config_.train;
    for (const Recompute recompute : choices("train.recompute", train.recompute, recomputes_)) {
      config.train.recompute = recompute;
      for (const RecomputeLayers& layers : recompute_layers_of(config)) {
        config.layout.recompute_layers = layers;
        vary_sequence(config);
      }
    }
  }

  // Beside no recompute and that of all layers, a part of them: as many as the memory needs. Several chunks have all or
  // none, since lists must be followed to count their memory.
  std::vector<RecomputeLayers> recompute_layers_of(const Config& config) const {
    if (keeps("layout.recompute_layers")) return {config_.layout.recompute_layers};
    std::vector<RecomputeLayers> list = {RecomputeLayers{}};
    if (config.train.recompute == Recompute::full && config.layout.chunks == 1) {
      list.push_back({.word = RecomputeLayers::Word::fit});
    }
    return list;
  }

  void vary_sequence(Config& config) {
    for (const bool sequence_parallel : {false, true}) {
      if (keeps("layout.sequence_parallel") && sequence_parallel != config_.layout.sequence_parallel) continue;
      config.layout.sequence_parallel = sequence_parallel;
      if (sequence_parallel && (config.layout.tensor == 1 || !holds_rules(config))) continue;
      if (!limits_.allows || limits_.allows(config)) list_.push_back(config);
    }
  }

  bool fits_ranks(const Config& config) const {
    try {
      schedule::check_ranks(config, devices_, ranks_per_node_);
    } catch (const UserError&) {
      return false;
    }
    return true;
  }

  const Config& config_;
  int64_t devices_, ranks_per_node_, most_tensor_;
  const LayoutLimits& limits_;
  bool keeps_sharding_, takes_one_;    // a step as one micro-batch
  std::vector<Recompute> recomputes_;  // recomputes that the model may have
  std::vector<Config> list_;
};

}  // namespace

const std::set<std::string>& varied_keys() {
  static const std::set<std::string> keys = {
      "layout.tensor",       "layout.pipeline",      "layout.schedule",          "layout.chunks",
      "layout.stage_layers", "layout.order",         "layout.sequence_parallel", "layout.sharding",
      "layout.shard_group",  "layout.shard_weights", "layout.shard_gradients",   "layout.shard_optimizer",
      "train.micro_batch",   "train.recompute",      "layout.recompute_layers"};
  return keys;
}

std::vector<config::Config> legal_layouts(const config::Config& config, int64_t devices, int64_t ranks_per_node,
                                          int64_t most_tensor, const LayoutLimits& limits) {
  return Enumeration(config, devices, ranks_per_node, most_tensor, limits).list();
}

}  // namespace terrace::plan
