// Connects the context ranks of a rank.
#include "terrace/parallel/context.h"

#include "terrace/base/error.h"
#include "terrace/parallel/comm_ranks.h"

namespace terrace::parallel {
namespace {

ops::ContextRoute route_of(config::ContextRoute route) {
  switch (route) {
    case config::ContextRoute::automatic:
    case config::ContextRoute::ring:
      break;
    case config::ContextRoute::gather:
      return ops::ContextRoute::gather;
    case config::ContextRoute::heads:
      return ops::ContextRoute::heads;
  }
  return ops::ContextRoute::ring;
}

}  // namespace

ContextParallel::ContextParallel(comm::World& world, const mesh::Mesh& mesh, const ContextPlaces& places,
                                 config::ContextRoute route) {
  if (!mesh.has("context")) return;
  TERRACE_CHECK(places.ranks == mesh.size("context"), "places of {} ranks on {}", places.ranks, mesh.size("context"));
  group_ = world.connect(mesh.group(world.rank(), "context"));
  ranks_ = std::make_unique<CommRanks>(*group_);
  cut_ = std::make_shared<const ops::ContextCut>(
      ops::ContextCut{.ranks = ranks_.get(), .places = places, .route = route_of(route)});
}

ContextParallel::~ContextParallel() = default;

std::shared_ptr<const ops::ContextCut> ContextParallel::cut_of(const models::Batch& batch) const {
  if (!cut_ || batch.places.length == 0) return cut_;
  ops::ContextCut own = *cut_;
  own.places = batch.places;
  return std::make_shared<const ops::ContextCut>(std::move(own));
}

}  // namespace terrace::parallel
