// Finds the keys of two layouts that decide the order of sums and the rounding of what is sent.
#include "terrace/train/layout_difference.h"

#include <fmt/format.h>

#include <initializer_list>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/config/family.h"
#include "terrace/config/phases.h"
#include "terrace/mesh/shards.h"
#include "terrace/schedule/rank_share.h"

namespace terrace::train {
namespace {

using Names = std::initializer_list<const char*>;

// These decide how a model and a step are cut, and in which types data are sent.
constexpr Names cut_keys = {"experts",       "tensor",      "sequence_parallel", "context",    "context_route",
                            "pipeline",      "chunks",      "stage_layers",      "schedule",   "gather_type",
                            "reduce_type",   "update_type", "outer_every",       "outer_type", "node_type",
                            "error_feedback"};
// These decide over which ranks a sum of gradients is taken first.
constexpr Names sharding_keys = {"sharding",        "shard_group", "shard_weights", "shard_gradients",
                                 "shard_optimizer", "route",       "deterministic"};

void add_differences(Names names, const config::Config& saved, const config::Config& now, std::string& text) {
  const std::vector<config::Key> keys = config::keys_of(now.family);
  for (const char* name : names) {
    const config::Key* key = config::find_key(keys, std::string("layout.") + name);
    TERRACE_CHECK(key != nullptr, "no key layout.{}", name);
    const std::string before = key->write(saved), after = key->write(now);
    if (before == after) continue;
    text += fmt::format("{}{} {} -> {}", text.empty() ? "" : ", ", key->full_name(), before, after);
  }
}

// All schedules but zb-v give a stage the same layers and add the gradients of micro-batches in the same order.
bool has_other_placement(const config::LayoutConfig& a, const config::LayoutConfig& b) {
  return (a.schedule == config::PipelineSchedule::zb_v) != (b.schedule == config::PipelineSchedule::zb_v);
}

bool has_one_micro_batch(const config::Config& config, int64_t data_ranks) {
  if (!config.train.micro_batch_sizes.empty()) return false;  // the data decide
  for (size_t phase = 0; phase <= config.phases.size(); ++phase) {
    if (schedule::pipeline_of(config::in_phase(config, phase), data_ranks).micro_batches > 1) return false;
  }
  return true;
}

// Whether gradients are summed over all data-parallel ranks in one movement, in the order of the ranks.
bool sums_at_once(const mesh::ShardSizes& sizes) {
  const int64_t parts = sizes.gradients > 1 ? sizes.gradients : sizes.optimizer;
  return (parts == 1 || parts == sizes.ranks) && sizes.rails_node == 1;
}

// Whether gradients are summed in the same order; docs/sharding.md, "Equal bits".
bool sums_alike(const config::Config& saved, const config::Config& now, int64_t ranks, int64_t here) {
  if (saved.layout.deterministic != now.layout.deterministic) return false;
  if (now.layout.deterministic) return true;
  const mesh::Mesh mesh = schedule::mesh_of(now.layout, ranks, here);
  mesh::ShardSizes before, after = mesh::shard_sizes(now.layout, mesh);
  try {
    before = mesh::shard_sizes(saved.layout, schedule::mesh_of(saved.layout, ranks, here));
  } catch (const UserError&) {  // the saved run had other nodes
    return false;
  }
  if (before.gradients == after.gradients && before.optimizer == after.optimizer &&
      before.rails_node == after.rails_node) {
    return true;
  }
  if (!sums_at_once(before) || !sums_at_once(after)) return false;
  const bool both_reduce_each = (before.gradients > 1) == (after.gradients > 1);  // micro-batch by itself
  return both_reduce_each || has_one_micro_batch(now, after.ranks);
}

}  // namespace

std::string layout_difference(const config::Config& saved, const config::Config& now, int64_t ranks, int64_t here) {
  config::Config before = saved;
  if (!has_other_placement(saved.layout, now.layout)) before.layout.schedule = now.layout.schedule;
  std::string text;
  add_differences(cut_keys, before, now, text);
  const bool has_same_data_ranks =
      saved.layout.tensor == now.layout.tensor && saved.layout.pipeline == now.layout.pipeline;
  if (!has_same_data_ranks || !sums_alike(saved, now, ranks, here)) add_differences(sharding_keys, saved, now, text);
  return text;
}

}  // namespace terrace::train
