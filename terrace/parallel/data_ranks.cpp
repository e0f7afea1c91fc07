// Connects the data-parallel ranks of a stage for sums within the model.
#include "terrace/parallel/data_ranks.h"

#include <vector>

#include "terrace/parallel/comm_ranks.h"

namespace terrace::parallel {

DataRanks::DataRanks(models::Model& model, comm::World& world, const mesh::Mesh& mesh) {
  std::vector<nn::Buffer*> asking = model.buffers();
  std::erase_if(asking, [](const nn::Buffer* buffer) { return !buffer->needs_data_ranks; });
  if (asking.empty() || mesh.size(mesh::shard_axes) == 1) return;
  mesh::Group members = mesh.group(world.rank(), mesh::shard_axes, "data");
  members.name = "statistics";
  group_ = world.connect(members);
  ranks_ = std::make_unique<CommRanks>(*group_);
  for (nn::Buffer* buffer : asking) buffer->data_ranks = ranks_.get();
}

DataRanks::~DataRanks() = default;

}  // namespace terrace::parallel
