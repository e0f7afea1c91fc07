// Numbers of virtual stages from stage and chunk, and back.
#include "terrace/schedule/pipeline/placement.h"

#include <algorithm>

#include "terrace/base/error.h"

namespace terrace::schedule {

int64_t Placement::virtual_stage(int64_t stage, int64_t chunk) const {
  TERRACE_CHECK(stage >= 0 && stage < stages && chunk >= 0 && chunk < chunks, "stage {} of {}, chunk {} of {}", stage,
                stages, chunk, chunks);
  return chunk * stages + (shape == Shape::vee && chunk == 1 ? stages - 1 - stage : stage);
}

int64_t Placement::stage_of(int64_t virtual_stage) const {
  TERRACE_CHECK(virtual_stage >= 0 && virtual_stage < virtual_stages(), "virtual stage {} of {}", virtual_stage,
                virtual_stages());
  return shape == Shape::vee && virtual_stage >= stages ? 2 * stages - 1 - virtual_stage : virtual_stage % stages;
}

std::vector<mesh::Direction> stage_directions(const Placement& placement) {
  std::vector<mesh::Direction> directions;
  const auto add = [&](const mesh::Direction& direction) {
    if (direction.from != direction.to && std::ranges::find(directions, direction) == directions.end())
      directions.push_back(direction);
  };
  for (int64_t lower = 0; lower + 1 < placement.virtual_stages(); ++lower) {
    const int64_t before = placement.stage_of(lower), after = placement.stage_of(lower + 1);
    add({.from = before, .to = after});  // activations
    add({.from = after, .to = before});  // gradients
  }
  return directions;
}

}  // namespace terrace::schedule
