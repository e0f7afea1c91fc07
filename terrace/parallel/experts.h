// Expert parallelism of any model: the ranks that divide the experts of each layer (mesh/experts.h), which layers get
// with each pass (models::Pass::experts). docs/experts.md has the communication.
#pragma once

#include <cstdint>
#include <memory>

#include "terrace/comm/comm.h"
#include "terrace/mesh/mesh.h"
#include "terrace/models/model.h"

namespace terrace::parallel {

class CommRanks;

class ExpertParallel {
 public:
  // Replaces the value of each parameter of experts by an uninitialized tensor for this rank's experts, and sets these
  // in its mark. Collective: every rank of the world calls it, before the model is sharded and after tensor ranks have
  // cut it. Nothing is cut or connected where `experts`, the number of ranks that divide experts, is 1.
  ExpertParallel(models::Model& model, comm::World& world, const mesh::Mesh& mesh, int64_t experts);
  ~ExpertParallel();

  ops::MovingRanks* ranks() const;                    // null: this rank has all experts
  comm::Comm* group() const { return group_.get(); }  // null: nothing is connected

 private:
  std::unique_ptr<comm::Comm> group_;
  std::unique_ptr<CommRanks> ranks_;
};

}  // namespace terrace::parallel
