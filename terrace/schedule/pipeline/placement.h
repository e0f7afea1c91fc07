// Places the virtual stages of a pipeline on its stages. The units of a model are divided into stages * chunks virtual
// stages of consecutive units, numbered in the order of the model. The virtual stages of one stage are its chunks.
#pragma once

#include <cstdint>
#include <vector>

#include "terrace/mesh/group.h"

namespace terrace::schedule {

struct Placement {
  enum class Shape {
    loops,  // chunk c of stage s is the virtual stage c * stages + s
    vee,    // two chunks: stage s has the virtual stages s and 2 * stages - 1 - s
  };
  int64_t stages = 1;
  int64_t chunks = 1;
  Shape shape = Shape::loops;

  int64_t virtual_stages() const { return stages * chunks; }
  int64_t virtual_stage(int64_t stage, int64_t chunk) const;
  int64_t stage_of(int64_t virtual_stage) const;
  int64_t chunk_of(int64_t virtual_stage) const { return virtual_stage / stages; }

  bool operator==(const Placement&) const = default;
};

// The directions that the sends of all schedules use, each once, in the order of the virtual stages.
std::vector<mesh::Direction> stage_directions(const Placement& placement);

}  // namespace terrace::schedule
