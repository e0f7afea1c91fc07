// Drops the parameters of other stages, and sums the gradients of parameters that two stages share.
#include "terrace/parallel/stage.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/parallel/transfer.h"

namespace terrace::parallel {
namespace {

// A tensor of these sizes without memory. Nobody computes with the parameters of other stages, so all of one shape
// share a tensor, on all ranks that are threads: a rank of a model with a hundred layers has thousands of them.
at::Tensor nowhere(const at::Tensor& like) {
  static std::mutex mutex;
  static std::map<std::pair<at::ScalarType, std::vector<int64_t>>, at::Tensor> known;
  const std::lock_guard lock(mutex);
  at::Tensor& tensor = known[{like.scalar_type(), like.sizes().vec()}];
  if (!tensor.defined()) {
    const auto options = like.options().device(at::kMeta).requires_grad(false);
    tensor = at::empty(like.sizes(), options).set_requires_grad(true);
  }
  return tensor;
}

// The stage that computes the segment.
int64_t owner_of(int64_t segment, const schedule::Partition& partition, const schedule::Placement& placement) {
  const auto found =
      std::ranges::find_if(partition.virtual_stages, [&](const auto& range) { return range.contains(segment); });
  return placement.stage_of(found - partition.virtual_stages.begin());
}

}  // namespace

std::vector<nn::Parameter*> segment_parameters(models::Model& model, const schedule::Segment& segment) {
  std::vector<nn::Parameter*> list;
  for (int64_t unit = segment.units.begin; unit < segment.units.end; ++unit) {
    const std::vector<nn::Parameter*> own = model.unit_parameters(unit);
    list.insert(list.end(), own.begin(), own.end());
  }
  return list;
}

std::vector<nn::Buffer*> segment_buffers(models::Model& model, const schedule::Segment& segment) {
  std::vector<nn::Buffer*> list;
  for (int64_t unit = segment.units.begin; unit < segment.units.end; ++unit) {
    const std::vector<nn::Buffer*> own = model.unit_buffers(unit);
    list.insert(list.end(), own.begin(), own.end());
  }
  return list;
}

Stage::Stage(models::Model& model, comm::World& world, const schedule::ResolvedLayout& layout)
    : model_(model),
      placement_(layout.placement),
      partition_(layout.partition()),
      stage_(layout.mesh.coordinate(world.rank(), "pipeline")),
      own_(layout.stages.at(static_cast<size_t>(stage_))),
      group_(world.connect(layout.mesh.group(world.rank(), "pipeline"), schedule::stage_directions(placement_))) {
  // The stages that hold a shared segment.
  std::set<int64_t> stages;
  for (int64_t reader = 0; reader < placement_.stages; ++reader) {
    for (const int64_t copy : layout.stages[static_cast<size_t>(reader)].copies) {
      const int64_t owner = owner_of(copy, partition_, placement_);
      stages.insert({owner, reader});
      if (reader == stage_ || owner == stage_) shared_.push_back(copy);
    }
  }
  TERRACE_CHECK(stages.size() == 0 || stages.size() == 2, "{} stages share parameters", stages.size());
  std::vector<int64_t> sharing;
  const std::vector<int64_t> ranks = layout.mesh.group(world.rank(), "pipeline").ranks;
  for (const int64_t stage : shared_.empty() ? std::set<int64_t>{stage_} : stages) sharing.push_back(ranks[stage]);
  sharing_ = world.connect({.name = "tied", .ranks = std::move(sharing)});
  for (int64_t number = 0; number <= partition_.last(); ++number) {
    const bool kept = std::ranges::binary_search(own_.held, number);
    const bool copy = std::ranges::binary_search(own_.copies, number);
    for (nn::Parameter* parameter : segment_parameters(model, segment(number))) {
      if (!kept) parameter->value = nowhere(parameter->value);
      if (copy) parameter->mark.counted = false;
      for (RowRange& rows : parameter->mark.row_ranges) rows.counted = rows.counted && !copy;
    }
    const bool computed = std::ranges::any_of(
        own_.chunks, [&](const std::vector<int64_t>& chunk) { return std::ranges::binary_search(chunk, number); });
    for (nn::Buffer* buffer : segment_buffers(model, segment(number))) {
      const at::Device device = computed ? model.device() : at::kMeta;
      if (buffer->value.device() == device) continue;
      buffer->value = at::empty(buffer->value.sizes(), buffer->value.options().device(device));
    }
  }
}

int64_t Stage::chunk_with(int64_t virtual_stage) const {
  if (virtual_stage < 0 || virtual_stage >= placement_.virtual_stages() || placement_.stage_of(virtual_stage) != stage_)
    return -1;
  return placement_.chunk_of(virtual_stage);
}

bool Stage::has_last() const { return placement_.stage_of(placement_.virtual_stages() - 1) == stage_; }

std::vector<nn::Parameter*> Stage::parameters() const {
  std::vector<nn::Parameter*> list;
  for (const int64_t number : own_.held) {
    const std::vector<nn::Parameter*> own = segment_parameters(model_, segment(number));
    list.insert(list.end(), own.begin(), own.end());
  }
  return list;
}

std::vector<nn::Buffer*> Stage::buffers() const {
  std::vector<nn::Buffer*> list;
  for (const std::vector<int64_t>& chunk : own_.chunks) {
    for (const int64_t number : chunk) {
      const std::vector<nn::Buffer*> own = segment_buffers(model_, segment(number));
      list.insert(list.end(), own.begin(), own.end());
    }
  }
  return list;
}

void Stage::sum_copies(const std::vector<optim::Shard>& shards) {
  if (shared_.empty()) return;
  const at::NoGradGuard no_grad;
  for (const optim::Shard& shard : shards) {
    if (!is_shared(shard.segment)) continue;
    Transfer::all_reduce(*sharing_, shard.gradient, shard.gradient.scalar_type(),
                         {.what = "sum gradients of tied weights", .segment = shard.segment, .phase = "step"})
        .finish();
  }
}

}  // namespace terrace::parallel
