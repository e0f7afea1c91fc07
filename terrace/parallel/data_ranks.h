// Passes the data-parallel ranks of a stage to the buffers of a model that ask for them (nn::Buffer), such as the
// statistics of batch norm, so that operations sum over all samples of a step; the model's code names no communicator.
#pragma once

#include <memory>

#include "terrace/comm/comm.h"
#include "terrace/mesh/mesh.h"
#include "terrace/models/model.h"

namespace terrace::parallel {

class CommRanks;

class DataRanks {
 public:
  // The sums have a communicator of their own, so that they keep their order beside movements that run in the
  // background: the ranks of an axis "data" with the same tensor and pipeline coordinates, whatever the sharding.
  // Collective: every rank of the world calls it. Nothing is connected on one data-parallel rank, or where no buffer of
  // the model, which are the same on all ranks, asks for it.
  DataRanks(models::Model& model, comm::World& world, const mesh::Mesh& mesh);
  ~DataRanks();

  comm::Comm* group() const { return group_.get(); }  // null: nothing is connected

 private:
  std::unique_ptr<comm::Comm> group_;
  std::unique_ptr<CommRanks> ranks_;
};

}  // namespace terrace::parallel
