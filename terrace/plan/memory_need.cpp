// Adds up the rows of the unit table by stage and rank.
#include "terrace/plan/memory_need.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "terrace/base/units.h"
#include "terrace/mesh/shards.h"
#include "terrace/models/cost/family.h"
#include "terrace/plan/rank_share.h"
#include "terrace/schedule/partition.h"
#include "terrace/schedule/pipeline.h"

namespace terrace::plan {
namespace {

double share(int64_t bytes, int64_t ranks) { return static_cast<double>(bytes) / static_cast<double>(ranks); }

// Bytes of a parameter's states on a rank.
double state_bytes(const config::Config& config, const mesh::ShardSizes& sizes) {
  const int64_t masters = config.train.precision != config::Precision::fp32 ? 4 : 0;
  return share(config::element_bytes(config.train.precision), sizes.weights) +
         share(config::element_bytes(config.train.gradient_type), sizes.gradients) +
         share(masters + 8, sizes.optimizer);
}

// Bytes of the copy of a parameter's states: the master weight and two moments. Of the ranks that hold an element, one
// copies it.
double copy_bytes(const config::Config& config, const mesh::ShardSizes& sizes) {
  return config.checkpoint.saves_beside_training() ? share(12, sizes.ranks) : 0;
}

struct StageNeed {
  int64_t elements = 0;  // of parameters, before they are cut over data-parallel ranks
  int64_t activations = 0;
};

class StageNeeds {
 public:
  StageNeeds(const config::Config& config, int64_t data_ranks)
      : config_(config),
        table_(models::unit_table(config, unit_table_options(config, data_ranks))),
        pipeline_(pipeline_of(config, data_ranks)),
        placement_(schedule::placement(pipeline_)),
        partition_(schedule::partition(table_, config.layout)) {}

  int64_t parameters() const { return schedule::elements(table_); }

  StageNeed of(int64_t stage) const { return {elements(stage), activations(stage)}; }

 private:
  int64_t elements(int64_t stage) const {
    int64_t sum = 0;
    for (const int64_t number : schedule::stage_segments(partition_, placement_, stage).held) {
      for (const auto& parameter : schedule::segment_parameters(table_, partition_.segment(number))) {
        sum += schedule::elements_on_rank(parameter.mark, config_.layout.tensor);
      }
    }
    return sum;
  }

  // All chunks of a stage are counted with their mean size.
  int64_t activations(int64_t stage) const {
    const int64_t chunks = config_.layout.chunks;
    int64_t kept = 0, deferred = 0;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const schedule::NumberRange& own = partition_.virtual_stage(placement_.virtual_stage(stage, chunk));
      for (int64_t number = own.begin; number < own.end; ++number) {
        kept += schedule::kept_bytes(table_, partition_.segment(number), config_.train.recompute);
        deferred += schedule::deferred_bytes(table_, partition_.segment(number));
      }
    }
    return schedule::live_bound(pipeline_, stage).bytes(kept, deferred) / chunks;
  }

  const config::Config& config_;
  schedule::UnitTable table_;
  schedule::Pipeline pipeline_;
  schedule::Placement placement_;
  schedule::Partition partition_;
};

}  // namespace

schedule::UnitTableOptions unit_table_options(const config::Config& config, int64_t data_ranks) {
  return {.samples = micro_batch_of(config, data_ranks),
          .element_bytes = config::element_bytes(config.train.precision),
          .tensor_ranks = config.layout.tensor,
          .sequence_parallel = config.layout.sequence_parallel};
}

MemoryNeed least_memory(const config::Config& config, int64_t ranks, int64_t here, int64_t together) {
  const mesh::Mesh mesh = mesh_of(config.layout, ranks, here);
  const mesh::ShardSizes sizes = mesh::shard_sizes(config.layout, mesh);
  const double state = state_bytes(config, sizes), copy = copy_bytes(config, sizes);
  const StageNeeds needs(config, mesh.size("data"));
  std::vector<StageNeed> by_stage;
  for (int64_t stage = 0; stage < config.layout.pipeline; ++stage) by_stage.push_back(needs.of(stage));
  MemoryNeed most;
  for (int64_t first = 0; first < mesh.size(); first += together) {
    MemoryNeed need{.ranks = std::min(together, mesh.size() - first)};
    for (int64_t rank = first; rank < first + need.ranks; ++rank) {
      const StageNeed& own = by_stage[static_cast<size_t>(mesh.coordinate(rank, "pipeline"))];
      need.states += static_cast<double>(own.elements) * state;
      need.activations += static_cast<double>(own.activations);
      need.copies += static_cast<double>(own.elements) * copy;
    }
    if (need.all() > most.all()) most = need;
  }
  most.parameters = needs.parameters();
  return most;
}

std::string memory_refusal(const config::Config& config, int64_t ranks, int64_t here, MemoryNeed need,
                           const AvailableMemory& available) {
  const bool on_gpus = available.gpu.has_value();
  if (on_gpus) {
    const double copies = least_memory(config, ranks, here, here).copies;
    if (available.machine > 0 && copies > available.machine) {
      return fmt::format(
          "the copy of the states that is written beside training needs {} of the machine's memory for {} ranks, and "
          "{} "
          "are left; use checkpoint.background = false or more machines, or start all the same with "
          "train.check_memory = false",
          format_bytes(copies), here, format_bytes(available.machine));
    }
    need.copies = 0;
  }
  const double left = available.gpu.value_or(available.machine);
  if (left == 0 || need.all() <= left) return "";
  const bool copied = need.copies > 0;
  const mesh::ShardSizes sizes = mesh::shard_sizes(config.layout, mesh_of(config.layout, ranks, here));
  return fmt::format(
      "a model of {} parameters needs {} for weights, gradients and optimizer states{} and {} for activations{}, and "
      "{} of {} are left; use a smaller model.width or model.layers, {}{}{}{}or a {} with more memory, or start all "
      "the "
      "same with train.check_memory = false",
      format_count(need.parameters), format_bytes(need.states + need.copies),
      copied ? ", the copy that is written beside training included," : "", format_bytes(need.activations),
      on_gpus          ? " on one GPU"
      : need.ranks > 1 ? fmt::format(" of {} ranks here", need.ranks)
                       : "",
      format_bytes(left), on_gpus ? "the GPU's memory" : "memory",
      micro_batch_of(config, sizes.ranks) > 1 ? "a smaller train.micro_batch, " : "",
      config.train.recompute != config::Recompute::full ? "train.recompute = \"full\", " : "",
      copied ? "checkpoint.background = false, which takes 12 bytes a parameter less, " : "",
      sizes.weights < sizes.ranks ? "layout.sharding = \"zero3\", " : "", on_gpus ? "GPU" : "machine");
}

}  // namespace terrace::plan
