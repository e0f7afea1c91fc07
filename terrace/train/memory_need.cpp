// Adds up the formulas of units, stages and ranks.
#include "terrace/train/memory_need.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "terrace/checkpoint/background.h"
#include "terrace/mesh/shards.h"
#include "terrace/models/model.h"
#include "terrace/nn/precision.h"
#include "terrace/parallel/stage.h"
#include "terrace/schedule/pipeline.h"
#include "terrace/train/rank_share.h"

namespace terrace::train {
namespace {

int64_t bytes_of(config::Precision precision) {
  return static_cast<int64_t>(c10::elementSize(nn::scalar_type(precision)));
}

// Of a parameter on a rank.
double state_bytes(const config::Config& config, const mesh::ShardSizes& sizes) {
  const int64_t masters = config.train.precision != config::Precision::fp32 ? 4 : 0;
  // Masters and two moments are copied, each by one of the ranks that have it.
  const int64_t copied = checkpoint::saves_beside_training(config.checkpoint) ? 12 : 0;
  const auto share = [](int64_t bytes, int64_t ranks) {
    return static_cast<double>(bytes) / static_cast<double>(ranks);
  };
  return share(bytes_of(config.train.precision), sizes.weights) +
         share(bytes_of(config.train.gradient_type), sizes.gradients) + share(masters + 8, sizes.optimizer) +
         share(copied, sizes.ranks);
}

struct StageNeed {
  int64_t elements = 0;  // before they are cut over data-parallel ranks
  int64_t activations = 0;
};

class StageNeeds {
 public:
  StageNeeds(const config::Config& config, int64_t data_ranks)
      : layout_(config.layout),
        model_(models::build_model(config.model, {at::kMeta, nn::scalar_type(config.train.precision)})),
        pipeline_(pipeline_of(config, data_ranks)),
        placement_(schedule::placement(pipeline_)),
        parts_(parallel::split_units(*model_, layout_.pipeline * layout_.chunks, layout_.stage_layers)),
        options_{.sequences = micro_batch_of(config.train, data_ranks),
                 .element_bytes = bytes_of(config.train.precision),
                 .recompute = config.train.recompute,
                 .tensor_ranks = layout_.tensor,
                 .sequence_parallel = layout_.sequence_parallel} {}

  int64_t parameters() const { return nn::whole_elements(model_->parameters()); }

  StageNeed of(int64_t stage) const { return {elements(stage), activations(stage)}; }

 private:
  int64_t elements(int64_t stage) const {
    int64_t sum = 0;
    for (const int64_t unit : parallel::held_units(*model_, placement_, parts_, stage)) {
      for (const nn::Parameter* parameter : model_->unit_parameters(unit)) {
        const bool cut = parameter->mark.kind == ParamMark::Kind::sharded;
        sum += parameter->value.numel() / (cut ? layout_.tensor : 1);
      }
    }
    return sum;
  }

  // Chunks of a stage are counted as one of their mean size.
  int64_t activations(int64_t stage) const {
    int64_t saved = 0, weight_inputs = 0;
    for (int64_t chunk = 0; chunk < layout_.chunks; ++chunk) {
      const parallel::UnitRange& units = parts_[static_cast<size_t>(placement_.part(stage, chunk))];
      for (int64_t unit = units.begin; unit < units.end; ++unit) {
        saved += model_->activation_bytes(unit, options_);
        weight_inputs += model_->weight_input_bytes(unit, options_);
      }
    }
    return schedule::live_bound(pipeline_, stage).bytes(saved, weight_inputs) / layout_.chunks;
  }

  const config::LayoutConfig& layout_;
  std::unique_ptr<models::Model> model_;
  schedule::Pipeline pipeline_;
  schedule::Placement placement_;
  std::vector<parallel::UnitRange> parts_;
  models::ActivationOptions options_;
};

}  // namespace

MemoryNeed least_memory(const config::Config& config, int64_t ranks, int64_t here) {
  const mesh::Mesh mesh = mesh_of(config.layout, ranks, here);
  const double each = state_bytes(config, mesh::shard_sizes(config.layout, mesh));
  const StageNeeds needs(config, mesh.size("data"));
  std::vector<StageNeed> by_stage;
  for (int64_t stage = 0; stage < config.layout.pipeline; ++stage) by_stage.push_back(needs.of(stage));
  MemoryNeed most{.parameters = needs.parameters()};
  for (int64_t first = 0; first < mesh.size(); first += here) {
    const int64_t end = std::min(first + here, mesh.size());
    double states = 0, activations = 0;
    for (int64_t rank = first; rank < end; ++rank) {
      const StageNeed& own = by_stage[static_cast<size_t>(mesh.coordinate(rank, "pipeline"))];
      states += static_cast<double>(own.elements) * each;
      activations += static_cast<double>(own.activations);
    }
    if (states + activations <= most.states + most.activations) continue;
    most.ranks = end - first;
    most.states = states;
    most.activations = activations;
  }
  return most;
}

}  // namespace terrace::train
