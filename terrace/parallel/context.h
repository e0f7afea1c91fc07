// Context parallelism of any model: the ranks among which the positions of each sample are cut, which attention gets
// with each pass (models::Pass::context). docs/context.md has the communication.
#pragma once

#include <memory>

#include "terrace/base/context_places.h"
#include "terrace/comm/comm.h"
#include "terrace/config/config.h"
#include "terrace/mesh/mesh.h"
#include "terrace/models/model.h"
#include "terrace/ops/attention/context_attention.h"

namespace terrace::parallel {

class CommRanks;

class ContextParallel {
 public:
  // Collective: every rank of the world calls it. Nothing is connected where the mesh has no axis "context". The route
  // is not "auto".
  ContextParallel(comm::World& world, const mesh::Mesh& mesh, const ContextPlaces& places, config::ContextRoute route);
  ~ContextParallel();

  const ops::ContextCut* cut() const { return cut_.get(); }  // null: this rank has all positions
  // That of a micro-batch, which may have places of its own.
  std::shared_ptr<const ops::ContextCut> cut_of(const models::Batch& batch) const;
  comm::Comm* group() const { return group_.get(); }  // null: nothing is connected

 private:
  std::unique_ptr<comm::Comm> group_;
  std::unique_ptr<CommRanks> ranks_;
  std::shared_ptr<const ops::ContextCut> cut_;
};

}  // namespace terrace::parallel
