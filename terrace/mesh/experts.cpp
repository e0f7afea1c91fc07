// Counts the ranks of a stage, and divides sizes of shards.
#include "terrace/mesh/experts.h"

#include <algorithm>
#include <string>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/config/divisors.h"

namespace terrace::mesh {
namespace {

std::vector<int64_t> ranks_of_stage(const Mesh& mesh, int64_t rank) {
  return mesh.same_coordinate(rank, "pipeline", "stage").ranks;
}

int64_t place_in_stage(const std::vector<int64_t>& stage, int64_t rank) {
  return std::ranges::lower_bound(stage, rank) - stage.begin();
}

// The ranks over which a size is sharded, of which those with the same experts are left.
bool fits(int64_t size, int64_t tensor, int64_t experts) {
  const int64_t ranks = size * tensor;
  return size == 1 || ranks % experts == 0 || experts % ranks == 0;
}

int64_t with_same_experts(int64_t size, int64_t tensor, int64_t experts) {
  return size == 1 ? 1 : std::max<int64_t>(1, size * tensor / experts);
}

}  // namespace

Group expert_group(const Mesh& mesh, int64_t rank, int64_t experts) {
  const std::vector<int64_t> stage = ranks_of_stage(mesh, rank);
  const auto first = stage.begin() + place_in_stage(stage, rank) / experts * experts;
  return {.name = "experts", .ranks = std::vector<int64_t>(first, first + experts)};
}

int64_t expert_coordinate(const Mesh& mesh, int64_t rank, int64_t experts) {
  return place_in_stage(ranks_of_stage(mesh, rank), rank) / experts;
}

Group expert_replicas(const std::vector<int64_t>& coordinates, std::string name, const Mesh& mesh, int64_t rank,
                      int64_t experts) {
  const std::vector<int64_t> stage = ranks_of_stage(mesh, rank);
  const int64_t member = place_in_stage(stage, rank) % experts;
  std::vector<int64_t> ranks;
  for (const int64_t coordinate : coordinates) {
    ranks.push_back(stage.at(static_cast<size_t>(coordinate * experts + member)));
  }
  return {.name = std::move(name), .ranks = std::move(ranks)};
}

ShardSizes expert_sizes(const config::LayoutConfig& layout, const ShardSizes& dense, const Mesh& mesh) {
  const int64_t experts = layout.experts, tensor = mesh.size("tensor"), stage = dense.ranks * tensor;
  const auto allowed = [&](int64_t number) {
    return stage % number == 0 && fits(dense.weights, tensor, number) && fits(dense.gradients, tensor, number) &&
           fits(dense.optimizer, tensor, number);
  };
  if (!allowed(experts)) {
    std::vector<int64_t> valid = config::divisors_near(stage, experts);
    std::erase_if(valid, [&](int64_t number) { return !allowed(number); });
    throw UserError::of(
        "layout.experts = {} does not fit the {} ranks of a stage (tensor {}, data and context {}), of which weights "
        "are "
        "sharded over {}, gradients over {} and optimizer states over {}; use {}",
        experts, stage, tensor, dense.ranks, dense.weights * tensor, dense.gradients * tensor, dense.optimizer * tensor,
        config::listed(valid));
  }
  ShardSizes sizes = dense;
  sizes.ranks = stage / experts;
  sizes.weights = with_same_experts(dense.weights, tensor, experts);
  sizes.gradients = with_same_experts(dense.gradients, tensor, experts);
  sizes.optimizer = with_same_experts(dense.optimizer, tensor, experts);
  sizes.rails_node = sizes.typed_node = 1;
  return sizes;
}

}  // namespace terrace::mesh
