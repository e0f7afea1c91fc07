// Adds up the rows of the unit table by stage and rank.
#include "terrace/plan/memory/memory_need.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "terrace/base/text/units.h"
#include "terrace/config/family.h"
#include "terrace/config/phases.h"
#include "terrace/config/rules.h"
#include "terrace/mesh/shards.h"
#include "terrace/plan/memory/copied_states.h"
#include "terrace/plan/memory/rank_overhead.h"
#include "terrace/schedule/rank_share.h"

namespace terrace::plan {
namespace {

// Whether a way out of too little memory is one for this configuration: no rule refuses the key's new value.
bool may_recompute(config::Config config) {
  if (config.train.recompute == config::Recompute::full) return false;
  config.train.recompute = config::Recompute::full;
  const auto holds = [&](const config::Rule& rule) { return rule.problem(config).empty(); };
  return std::ranges::all_of(config::core_rules(), holds) && std::ranges::all_of(config.family->settings.rules, holds);
}

bool may_recompute_more(const config::Config& config) {
  return config.train.recompute != config::Recompute::none &&
         config.layout.recompute_layers.word == config::RecomputeLayers::Word::numbers;
}

MemoryNeed least_memory_of_phase(const config::Config& config, int64_t ranks, int64_t here, int64_t together) {
  const PlannedRun run(config, ranks, here);
  std::vector<MemoryNeed> by_stage;  // of one rank
  for (int64_t stage = 0; stage < config.layout.pipeline; ++stage) {
    const StageMemory memory = stage_memory(run, stage, {});
    by_stage.push_back({.states = memory.states(),
                        .feedback = memory.of(MemoryKind::feedback),
                        .activations = memory.of(MemoryKind::activations),
                        .copies = copied_bytes(run, stage, memory),
                        .beside = rank_overhead_bytes(run) + padding_bytes(run, stage)});
  }
  MemoryNeed most;
  for (int64_t first = 0; first < run.mesh.size(); first += together) {
    MemoryNeed need{.ranks = std::min(together, run.mesh.size() - first)};
    for (int64_t rank = first; rank < first + need.ranks; ++rank) {
      const MemoryNeed& own = by_stage[static_cast<size_t>(run.mesh.coordinate(rank, "pipeline"))];
      need.states += own.states;
      need.feedback += own.feedback;
      need.activations += own.activations;
      need.copies += own.copies;
      need.beside += own.beside;
    }
    if (need.all() > most.all()) most = need;
  }
  most.parameters = schedule::elements(run.table());
  return most;
}

}  // namespace

std::string fewer_copies(const config::CheckpointConfig& checkpoint, bool on_one_node, bool on_gpus) {
  std::string ways;
  if (checkpoint.saves_beside_training()) {
    ways += fmt::format("checkpoint.background = false, which takes {} bytes a parameter less, ",
                        checkpoint_bytes_per_parameter);
  }
  if (checkpoint.memory_every > 0) {
    config::CheckpointConfig without_saves = checkpoint;
    without_saves.every = 0;
    ways += fmt::format(
        "checkpoint.memory_every = 0, which takes {} bytes a parameter less, ",
        static_cast<double>(state_copies(without_saves, on_gpus).times(on_one_node)) * checkpoint_bytes_per_parameter);
  }
  return ways;
}

std::string_view MemoryNeed::states_text() const {
  return feedback > 0 ? "weights, gradients, their errors and optimizer states"
                      : "weights, gradients and optimizer states";
}

MemoryNeed least_memory(const config::Config& config, int64_t ranks, int64_t here, int64_t together) {
  MemoryNeed most = least_memory_of_phase(config::in_phase(config, 0), ranks, here, together);
  for (size_t phase = 1; phase <= config.phases.size(); ++phase) {
    const MemoryNeed need = least_memory_of_phase(config::in_phase(config, phase), ranks, here, together);
    if (need.all() > most.all()) most = need;
  }
  return most;
}

std::string memory_refusal(const config::Config& config, int64_t ranks, int64_t here, MemoryNeed need,
                           const AvailableMemory& available) {
  const bool on_gpus = available.gpu.has_value();
  if (on_gpus) {
    const double copies = least_memory(config, ranks, here, here).copies;
    if (available.machine > 0 && copies > available.machine) {
      return fmt::format(
          "the copies of the states that are made beside training need {} of the machine's memory for {} ranks, and {} "
          "are left; use {}or more machines, or start all the same with train.check_memory = false",
          format_bytes(copies), here, format_bytes(available.machine),
          fewer_copies(config.checkpoint, is_one_node(config, ranks, here), on_gpus));
    }
    need.copies = need.beside = 0;
  }
  const double left = available.gpu.value_or(available.machine);
  if (left == 0 || need.all() <= left) return "";
  const bool copied = need.copies > 0;
  const mesh::ShardSizes sizes = mesh::shard_sizes(config.layout, schedule::mesh_of(config.layout, ranks, here));
  return fmt::format(
      "a model of {} parameters needs {} for {}{}, {} for activations{}{}, and "
      "{} of {} are left; use a smaller {}model.width or model.layers, {}{}{}{}{}or a {} with more memory, or start "
      "all the same with train.check_memory = false",
      format_count(need.parameters), format_bytes(need.states + need.copies), need.states_text(),
      copied ? ", the copies that are made beside training included" : "", format_bytes(need.activations),
      need.beside > 0 ? fmt::format(" and {} beside tensors", format_bytes(need.beside)) : "",
      on_gpus          ? " on one GPU"
      : need.ranks > 1 ? fmt::format(" of {} ranks here", need.ranks)
                       : "",
      format_bytes(left), on_gpus ? "the GPU's memory" : "memory",
      config::find_key(config.family->settings.keys, "model.sequence") != nullptr ? "model.sequence, " : "",
      schedule::micro_batch_of(config, sizes.ranks) == 1 ? ""
      : config.train.micro_batch_sizes.empty()           ? "a smaller train.micro_batch, "
                                                         : "smaller train.micro_batch_sizes, ",
      may_recompute(config)        ? "train.recompute = \"full\", "
      : may_recompute_more(config) ? "layout.recompute_layers = \"fit\", "
                                   : "",
      need.feedback > 0 ? "layout.error_feedback = false, " : "",
      copied ? fewer_copies(config.checkpoint, is_one_node(config, ranks, here), on_gpus) : "",
      sizes.weights < sizes.ranks ? "layout.sharding = \"zero3\", " : "", on_gpus ? "GPU" : "machine");
}

}  // namespace terrace::plan
