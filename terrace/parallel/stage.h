// What one pipeline stage has of a model: the units of its parts, and a copy of a unit whose matrix its head shares
// with the first stage.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/mesh/mesh.h"
#include "terrace/models/model.h"
#include "terrace/optim/shard.h"
#include "terrace/schedule/pipeline.h"

namespace terrace::parallel {

struct UnitRange {
  int64_t begin = 0, end = 0;

  bool operator==(const UnitRange&) const = default;
};

// The units of every part of the model in order. `layers_of_part` counts the units between the first and the last one
// of the model for each part; empty: shared out by the costs of the units and of their halves, and a unit that then
// lies in two parts is halved in the model. Called before anything else is made of the units.
std::vector<UnitRange> split_units(models::Model& model, int64_t parts, const std::vector<int64_t>& layers_of_part);

// The units whose parameters a stage has, in order: those of its parts, and copies of others that they read.
std::vector<int64_t> held_units(models::Model& model, const schedule::Placement& placement,
                                const std::vector<UnitRange>& parts, int64_t stage);

class Stage {
 public:
  // Frees the memory of parameters that are not this stage's; those of copies are marked as counted elsewhere. Every
  // rank of the world calls it at the same time. On an axis "pipeline" of size 1 every unit is here.
  Stage(models::Model& model, comm::World& world, const mesh::Mesh& mesh, const schedule::Placement& placement,
        const std::vector<UnitRange>& parts);

  // Of the chunk.
  const UnitRange& units(int64_t chunk) const { return parts_[placement_.part(stage_, chunk)]; }
  bool is_first(int64_t chunk) const { return placement_.part(stage_, chunk) == 0; }
  bool is_last(int64_t chunk) const { return placement_.part(stage_, chunk) + 1 == placement_.parts(); }
  // Whether the loss is computed here.
  bool has_last() const;

  // The chunk of this stage with the next or the previous part of the model; -1: another stage has it, or none.
  int64_t chunk_here_after(int64_t chunk) const { return chunk_with(placement_.part(stage_, chunk) + 1); }
  int64_t chunk_here_before(int64_t chunk) const { return chunk_with(placement_.part(stage_, chunk) - 1); }

  bool computes(int64_t unit) const;
  // Units that are here as a copy, for the head.
  const std::vector<int64_t>& copies() const { return copies_; }
  std::vector<int64_t> held() const { return held_units(model_, placement_, parts_, stage_); }
  std::vector<nn::Parameter*> parameters() const;

  int64_t number() const { return stage_; }
  const schedule::Placement& placement() const { return placement_; }
  comm::Comm& group() { return *group_; }
  comm::Comm& sharing() { return *sharing_; }

  // Once the optimizer's parts of the gradients are summed over data and micro-batches: adds up those of units that two
  // stages have. `shards` are those of held(), without units that have no parameters.
  void sum_copies(const std::vector<optim::Shard>& shards);

 private:
  int64_t chunk_with(int64_t part) const;

  models::Model& model_;
  schedule::Placement placement_;
  std::vector<UnitRange> parts_;
  int64_t stage_;
  std::vector<int64_t> copies_;
  std::vector<int64_t> shared_;  // units that this stage has and another one too
  std::unique_ptr<comm::Comm> group_, sharing_;
};

}  // namespace terrace::parallel
