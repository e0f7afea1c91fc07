// Cuts the parameters of experts, and connects the ranks that have them.
#include "terrace/parallel/experts.h"

#include <ATen/ops/empty.h>

#include <vector>

#include "terrace/mesh/experts.h"
#include "terrace/parallel/comm_ranks.h"

namespace terrace::parallel {
namespace {

// Rows can go from every member to every other one.
std::vector<mesh::Direction> all_directions(int64_t members) {
  std::vector<mesh::Direction> directions;
  for (int64_t from = 0; from < members; ++from) {
    for (int64_t to = 0; to < members; ++to) {
      if (from != to) directions.push_back({from, to});
    }
  }
  return directions;
}

void cut(nn::Parameter& parameter, int64_t member, int64_t ranks) {
  ParamMark& mark = parameter.mark;
  mark.kind = ParamMark::Kind::sharded;
  mark.axis = "experts";
  mark.dim = 0;
  mark.counted = true;
  mark.row_ranges = row_ranges_of(mark, member, ranks);
  parameter.cut = nullptr;
  parameter.value = at::empty(local_shape(mark), parameter.value.options()).set_requires_grad(true);
}

}  // namespace

ExpertParallel::ExpertParallel(models::Model& model, comm::World& world, const mesh::Mesh& mesh, int64_t experts) {
  if (experts == 1) return;
  const mesh::Group group = mesh::expert_group(mesh, world.rank(), experts);
  group_ = world.connect(group, all_directions(experts));
  ranks_ = std::make_unique<CommRanks>(*group_);
  for (nn::Parameter* parameter : model.parameters()) {
    if (parameter->mark.of_experts) cut(*parameter, group_->member(), experts);
  }
}

ExpertParallel::~ExpertParallel() = default;

ops::MovingRanks* ExpertParallel::ranks() const { return ranks_.get(); }

}  // namespace terrace::parallel
