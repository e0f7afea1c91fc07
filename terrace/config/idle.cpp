// The table of the keys that can be without effect, with the reason for each.
#include "terrace/config/idle.h"

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/config/domain.h"
#include "terrace/config/family.h"
#include "terrace/config/shard_groups.h"
#include "terrace/config/wire_type.h"

namespace terrace::config {
namespace {

using GroupWord = ShardGroup::Word;

std::string evaluation_size(const Config& c) {
  if (c.train.evaluate_every > 0) return "";
  return fmt::format("with evaluate_every = 0; use evaluate_batches = 0, or give evaluate_every, such as {}",
                     std::max<int64_t>(1, c.train.steps / 10));
}

std::string rest_of_ramp(const Config& c) {
  if (c.train.ramp_start > 0) return "";
  return fmt::format("without ramp_start; give it, such as {}, or remove the ramp-up",
                     std::max<int64_t>(1, c.train.ramp_increment));
}

std::string loss_scale(const Config& c) {
  if (c.train.precision == Precision::fp16) return "";
  return fmt::format("with precision = \"{}\"; remove it, or use \"fp16\"", name_of(c.train.precision));
}

std::string after_checks(const Config& c) {
  if (c.train.check_states_every > 0 || c.train.check_computation_every > 0) return "";
  return "without check_states_every and check_computation_every; give one of them, such as check_states_every = 100, "
         "or remove it";
}

std::string of_spikes(const Config& c) {
  if (c.train.on_spike != OnSpike::ignore) return "";
  return "with on_spike = \"ignore\"; remove it, or use \"warn\", \"skip\" or \"back\"";
}

std::string decay_length(const Config& c) {
  if (c.optimizer.schedule != Decay::constant) return "";
  return "with schedule = \"constant\"; remove it, or use \"cosine\", \"linear\" or \"wsd\"";
}

std::string decay_end(const Config& c) {
  return c.optimizer.schedule == Decay::constant ? "with schedule = \"constant\"; remove it" : "";
}

std::string pipeline_key(const Config& c) {
  if (c.layout.pipeline > 1) return "";
  return "with pipeline = 1; remove it, or give pipeline the number of stages";
}

std::string pipeline_schedule(const Config& c) {
  std::string one_stage = pipeline_key(c);
  if (!one_stage.empty()) return one_stage;
  if (c.layout.schedule != PipelineSchedule::interleaved || c.layout.chunks > 1) return "";
  return "with chunks = 1, which interleaves nothing; give chunks of at least 2, or remove it";
}

std::string some_layers(const Config& c) {
  if (c.train.recompute != Recompute::none) return "";
  return "with train.recompute = \"none\"; remove it, or use train.recompute = \"full\"";
}

std::string synced(const Config& c) {
  return c.layout.outer_every > 0 ? ""
                                  : "without layout.outer_every; remove it, or give layout.outer_every, such as 32";
}

// Copies are brought together only where there are several: all ranks may be one whole copy.
std::string whole(const Config&, const RankFacts& ranks) {
  if (ranks.data > ranks.optimizer) return "";
  return fmt::format("on {}, which hold one copy of the optimizer states; use sharding = \"hybrid\" or \"ddp\"",
                     ranks.data_text());
}

std::string sequence_cut(const Config& c) { return c.layout.tensor == 1 ? "with tensor = 1; remove it" : ""; }

std::string positions_cut(const Config& c) { return c.layout.context == 1 ? "with context = 1; remove it" : ""; }

std::string axis_order(const Config& c) {
  if (c.layout.pipeline > 1 || c.layout.tensor > 1) return "";
  return "with pipeline = 1 and tensor = 1, where data is the only axis; remove it";
}

// The data axis counts only if it has more than one rank.
std::string axis_order_on(const Config& c, const RankFacts& ranks) {
  const int axes = (c.layout.pipeline > 1 ? 1 : 0) + (c.layout.tensor > 1 ? 1 : 0) + (ranks.data > 1 ? 1 : 0);
  return axes > 1 ? "" : "where the mesh has one axis";
}

bool cuts(const ShardGroup& group) {
  return group.word != GroupWord::none && !(group.word == GroupWord::number && group.number == 1);
}

bool names(const LayoutConfig& layout, GroupWord word) {
  const ShardGroups groups = shard_groups(layout);
  return groups.weights.word == word || groups.gradients.word == word || groups.optimizer.word == word;
}

// The key that decides how the weights are cut, with its value, for a message.
std::string how_weights_are_cut(const LayoutConfig& layout) {
  if (layout.shard_weights.word == GroupWord::as_sharding)
    return fmt::format("sharding = \"{}\"", name_of(layout.sharding));
  return fmt::format("shard_weights = {}", toml_text(layout.shard_weights));
}

bool all_groups_given(const LayoutConfig& layout) {
  return layout.shard_weights.word != GroupWord::as_sharding && layout.shard_gradients.word != GroupWord::as_sharding &&
         layout.shard_optimizer.word != GroupWord::as_sharding;
}

std::string sharding_name(const Config& c) {
  if (!all_groups_given(c.layout)) return "";
  return "beside shard_weights, shard_gradients and shard_optimizer, which replace it together; remove it, or one of "
         "them";
}

std::string hybrid_group(const Config& c) {
  if (all_groups_given(c.layout)) return sharding_name(c);
  if (c.layout.sharding == Sharding::hybrid) return "";
  return fmt::format("with sharding = \"{}\"; remove it, or use \"hybrid\"", name_of(c.layout.sharding));
}

std::string gathered(const Config& c) {
  if (cuts(shard_groups(c.layout).weights)) return "";
  return fmt::format("with {}, which cuts no weights; remove it, or use sharding = \"zero3\"",
                     how_weights_are_cut(c.layout));
}

std::string gathered_on(const Config&, const RankFacts& ranks) {
  return ranks.weights > 1 ? "" : fmt::format("on {}, over which no weights are cut", ranks.data_text());
}

std::string updated(const Config& c) {
  const ShardGroups groups = shard_groups(c.layout);
  if (cuts(groups.optimizer) && groups.optimizer != groups.weights) return "";
  return fmt::format(
      "with {}, where no weights travel after the step, since optimizer states are cut as the weights are; remove it, "
      "or use sharding = \"zero1\"",
      how_weights_are_cut(c.layout));
}

std::string updated_on(const Config&, const RankFacts& ranks) {
  if (ranks.optimizer > ranks.weights) return "";
  return fmt::format("on {}, over which optimizer states are cut as the weights are", ranks.data_text());
}

std::string quantized_types(const Config& c) {
  if (quantizes(c.layout)) return "";
  return "without a quantized type, which it would replace inside nodes; remove it, or use reduce_type = \"int4\"";
}

// A pair must fit into a node, so the size of a pair has an effect wherever the size of a node has one.
bool may_use_rails(const Config& c) {
  return c.layout.route == Routing::rails || (c.layout.route == Routing::automatic && !c.observe.machine.empty());
}

std::string rails_gathers(const Config& c) {
  if (!may_use_rails(c)) {
    const bool flat = c.layout.route == Routing::flat;
    return fmt::format("{}, where nothing moves by rails; remove it, or use route = \"rails\"",
                       flat ? "with route = \"flat\"" : "with route = \"auto\" and no observe.machine");
  }
  if (cuts(shard_groups(c.layout).optimizer)) return "";
  return fmt::format("with sharding = \"{}\", which gathers no weights; remove it, or use \"zero3\"",
                     name_of(c.layout.sharding));
}

bool uses_nodes(const Config& c) {
  const bool has_node_type = c.layout.node_type != NodeType::as_others && quantizes(c.layout);
  return names(c.layout, GroupWord::pair) || names(c.layout, GroupWord::node) || may_use_rails(c) || has_node_type;
}

// Whether the ranks of a node share a disk to which data is copied. The key belongs to families.
bool stages_data(const Config& c) {
  const Key* stage = c.family == nullptr ? nullptr : find_key(c.family->settings.keys, "data.stage");
  return stage != nullptr && stage->write(c) != toml_text(std::string_view());
}

std::string pair_size(const Config& c) {
  // The size of a pair must divide that of a node where nodes have an effect.
  if (uses_nodes(c) || stages_data(c)) return "";
  return "where nothing is cut over a pair; remove it, or use sharding = \"three_level\" or \"pair\" in a shard_ key";
}

std::string node_size(const Config& c) {
  if (uses_nodes(c) || stages_data(c) || c.checkpoint.memory_every > 0) return "";
  return "where nothing is cut over a node; remove it, or use sharding = \"node\" or \"node\" in a shard_ key, or "
         "route "
         "= \"rails\"";
}

std::string one_data_rank(const Config&, const RankFacts& ranks) {
  return ranks.data > 1 ? "" : fmt::format("on {}", ranks.data_text());
}

// Copies in memory lie on two nodes, whatever the ranks of a node hold.
std::string one_data_rank_without_copies(const Config& c, const RankFacts& ranks) {
  return c.checkpoint.memory_every > 0 && ranks.all > 1 ? "" : one_data_rank(c, ranks);
}

std::string typed_nodes_on(const Config& c, const RankFacts& ranks) {
  if (ranks.data > 1 && ranks.typed_node == 1) return "on nodes of one data-parallel rank each; remove it";
  return one_data_rank(c, ranks);
}

// Sums of several ranks are quantized without feedback.
std::string fed_back_on(const Config& c, const RankFacts& ranks) {
  if (ranks.data == 1 || ranks.feeds_back) return one_data_rank(c, ranks);
  return fmt::format(
      "with node_type = \"{}\", since the ranks of a node sum their gradients before any are quantized; remove it",
      name_of(c.layout.node_type));
}

// Copies of one rank each that make steps by themselves sum no gradients.
std::string reduced_on(const Config& c, const RankFacts& ranks) {
  if (ranks.data == 1 || c.layout.outer_every == 0 || ranks.optimizer > 1) return one_data_rank(c, ranks);
  return "on copies of one rank each, which sum no gradients; layout.outer_type is the type of their differences";
}

// The gradient noise scale compares gradients of few and of many samples.
std::string one_micro_batch(const Config& c, const RankFacts& ranks) {
  if (ranks.data > 1 || !c.train.micro_batch_sizes.empty()) return "";
  int64_t samples = c.train.global_batch;
  for (const Phase& phase : c.phases) samples = std::max(samples, phase.global_batch);
  const int64_t micro_batch = c.train.micro_batch == 0 ? samples : c.train.micro_batch;
  if (micro_batch < samples) return "";
  if (samples == 1) return "with one sample a step; use a larger train.global_batch";
  int64_t smaller = samples - 1;
  while (samples % smaller != 0) --smaller;
  return fmt::format("on one data-parallel rank with one micro-batch a step; use train.micro_batch = {}", smaller);
}

std::string one_rank(const Config&, const RankFacts& ranks) { return ranks.all > 1 ? "" : "on one rank"; }

std::string kept_steps(const Config& c) {
  if (c.checkpoint.every == 0) {
    return fmt::format("without checkpoint.every; use every = {}", c.checkpoint.keep_every);
  }
  if (c.checkpoint.keep > 0) return "";
  return fmt::format("with keep = 0, which keeps every checkpoint; remove it, or use keep = {}",
                     CheckpointConfig{}.keep);
}

std::string background_saves(const Config& c) {
  if (c.checkpoint.every > 0) return "";
  return "without checkpoint.every: the checkpoint at the end is never written in the background; remove it";
}

std::string staging_folder(const Config& c) {
  if (c.checkpoint.every == 0) {
    return "without checkpoint.every: the checkpoint at the end is written into its folder at once; remove it, or give "
           "every, such as 100";
  }
  if (c.checkpoint.background) return "";
  return "with background = false: staging copies checkpoints in the background; remove one of them";
}

std::string memory_copies(const Config& c) {
  return c.checkpoint.memory_every > 0 ? ""
                                       : "without checkpoint.memory_every, since nothing is copied there; remove it, "
                                         "or give memory_every, such as 10";
}

const std::vector<std::string> ramp_keys = {"train.ramp_start", "train.ramp_increment"};
const std::vector<std::string> check_keys = {"train.check_states_every", "train.check_computation_every"};
const std::vector<std::string> sharding_keys = {"layout.sharding", "layout.shard_weights", "layout.shard_gradients",
                                                "layout.shard_optimizer"};

}  // namespace

std::string RankFacts::data_text() const {
  return data == 1 ? "one data-parallel rank" : fmt::format("{} data-parallel ranks", data);
}

const std::vector<IdleRule>& core_idle_rules() {
  static const std::vector<IdleRule> list = {
      {.key = "train.evaluate_batches",
       .causes = {"train.evaluate_every", "train.steps"},
       .off = "0",
       .beside = evaluation_size},
      {.key = "train.ramp_increment", .causes = {"train.ramp_start"}, .off = "0", .beside = rest_of_ramp},
      {.key = "train.ramp_samples", .causes = ramp_keys, .off = "0", .beside = rest_of_ramp},
      {.key = "train.noise_scale_every", .causes = {}, .on = one_micro_batch},
      {.key = "train.on_corruption", .causes = check_keys, .off = "\"stop\"", .beside = after_checks},
      {.key = "train.spike_threshold", .causes = {"train.on_spike"}, .beside = of_spikes},
      {.key = "train.spike_window", .causes = {"train.on_spike"}, .beside = of_spikes},
      {.key = "train.initial_loss_scale", .causes = {"train.precision"}, .beside = loss_scale},
      {.key = "train.loss_scale_window", .causes = {"train.precision"}, .beside = loss_scale},
      {.key = "optimizer.decay_steps", .causes = {"optimizer.schedule"}, .off = "0", .beside = decay_length},
      {.key = "optimizer.min_learning_rate", .causes = {"optimizer.schedule"}, .off = "0.0", .beside = decay_end},
      {.key = "layout.order",
       .causes = {"layout.pipeline", "layout.tensor"},
       .beside = axis_order,
       .on = axis_order_on},
      {.key = "layout.schedule", .causes = {"layout.pipeline", "layout.chunks"}, .beside = pipeline_schedule},
      {.key = "layout.chunks", .causes = {"layout.pipeline"}, .off = "1", .beside = pipeline_key},
      {.key = "layout.stage_layers", .causes = {"layout.pipeline"}, .off = "[]", .beside = pipeline_key},
      {.key = "optimizer.outer_learning_rate", .causes = {"layout.outer_every"}, .beside = synced},
      {.key = "optimizer.outer_momentum", .causes = {"layout.outer_every"}, .beside = synced},
      {.key = "layout.outer_every", .causes = {}, .on = whole},
      {.key = "layout.outer_type", .causes = {"layout.outer_every"}, .off = "\"same\"", .beside = synced, .on = whole},
      {.key = "layout.recompute_layers", .causes = {"train.recompute"}, .off = "\"all\"", .beside = some_layers},
      {.key = "layout.sequence_parallel", .causes = {"layout.tensor"}, .off = "false", .beside = sequence_cut},
      {.key = "layout.context_route", .causes = {"layout.context"}, .off = "\"auto\"", .beside = positions_cut},
      {.key = "layout.sharding",
       .causes = {"layout.shard_weights", "layout.shard_gradients", "layout.shard_optimizer"},
       .beside = sharding_name,
       .on = one_data_rank},
      {.key = "layout.shard_group", .causes = sharding_keys, .off = "0", .beside = hybrid_group},
      {.key = "layout.shard_weights", .causes = {}, .on = one_data_rank},
      {.key = "layout.shard_gradients", .causes = {}, .on = one_data_rank},
      {.key = "layout.shard_optimizer", .causes = {}, .on = one_data_rank},
      {.key = "layout.prefetch", .causes = sharding_keys, .off = "0", .beside = gathered, .on = gathered_on},
      {.key = "layout.gather_type", .causes = sharding_keys, .off = "\"same\"", .beside = gathered, .on = gathered_on},
      {.key = "layout.reduce_type", .causes = {}, .on = reduced_on},
      {.key = "layout.error_feedback", .causes = {}, .on = fed_back_on},
      {.key = "layout.node_type",
       .causes = {"layout.gather_type", "layout.reduce_type", "layout.update_type"},
       .off = "\"as others\"",
       .beside = quantized_types,
       .on = typed_nodes_on},
      {.key = "layout.update_type", .causes = sharding_keys, .off = "\"same\"", .beside = updated, .on = updated_on},
      {.key = "layout.route", .causes = {}, .on = one_data_rank},
      {.key = "layout.rails_gather",
       .causes = {"layout.route", "observe.machine", "layout.sharding", "layout.shard_weights",
                  "layout.shard_gradients", "layout.shard_optimizer"},
       .off = "\"auto\"",
       .beside = rails_gathers,
       .on = one_data_rank},
      {.key = "layout.deterministic", .causes = {}, .on = one_rank},
      {.key = "layout.ranks_per_pair", .causes = sharding_keys, .beside = pair_size, .on = one_data_rank},
      {.key = "layout.ranks_per_node",
       .causes = {"layout.sharding", "layout.shard_weights", "layout.shard_gradients", "layout.shard_optimizer",
                  "layout.route", "layout.node_type", "observe.machine", "data.stage", "checkpoint.memory_every"},
       .off = "0",
       .beside = node_size,
       .on = one_data_rank_without_copies},
      {.key = "layout.timeout", .causes = {}, .on = one_rank},
      {.key = "layout.check_calls", .causes = {}, .on = one_rank},
      {.key = "layout.share_gpus", .causes = {}, .on = one_rank},
      {.key = "checkpoint.keep_every",
       .causes = {"checkpoint.every", "checkpoint.keep"},
       .off = "0",
       .beside = kept_steps},
      {.key = "checkpoint.background", .causes = {"checkpoint.every"}, .beside = background_saves},
      {.key = "checkpoint.staging",
       .causes = {"checkpoint.every", "checkpoint.background"},
       .off = "\"\"",
       .beside = staging_folder},
      {.key = "checkpoint.memory_folder", .causes = {"checkpoint.memory_every"}, .beside = memory_copies},
  };
  return list;
}

std::string idle_beside(const Config& config, const std::string& full_name) {
  const auto reason = [&](const std::vector<IdleRule>& list) -> std::string {
    const auto rule = std::ranges::find(list, full_name, &IdleRule::key);
    return rule == list.end() || rule->beside == nullptr ? "" : rule->beside(config);
  };
  const std::string text = reason(core_idle_rules());
  return text.empty() && config.family != nullptr ? reason(config.family->settings.idle_rules) : text;
}

std::vector<std::string> idle_keys(const Config& config, const RankFacts& ranks) {
  const Config defaults = config_of(*config.family);
  const std::vector<Key> keys = keys_of(config.family);
  std::vector<std::string> sentences = config.idle;
  for (const IdleRule& rule : idle_rules_of(config.family)) {
    if (rule.on == nullptr) continue;
    const Key& key = *find_key(keys, rule.key);
    const std::string value = key.write(config);
    if (value == key.write(defaults) || value == rule.off || !idle_beside(config, rule.key).empty()) continue;
    const std::string reason = rule.on(config, ranks);
    if (!reason.empty()) sentences.push_back(fmt::format("{} = {} has no effect {}", rule.key, value, reason));
  }
  return sentences;
}

}  // namespace terrace::config
