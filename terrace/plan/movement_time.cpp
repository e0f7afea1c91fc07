// Times each call of a movement by the place of its group on the machine.
#include "terrace/plan/movement_time.h"

#include "terrace/config/wire_type.h"

namespace terrace::plan {

using schedule::Hop;
using schedule::Movement;

MovementTimes::MovementTimes(const config::Config& config, const mesh::Mesh& mesh, const mesh::ShardSizes& sizes,
                             const machine::Machine& machine, const std::vector<Algorithm>& algorithms)
    : config_(config), mesh_(mesh), sizes_(sizes), machine_(machine), algorithms_(algorithms) {
  const mesh::ShardPlace place(sizes, 0);
  const schedule::Movements movements = schedule::movements_of(sizes, config.layout.deterministic);
  gather_ = places_of(place.gather, movements.has_two_hops(Movement::gather_weights));
  reduce_ =
      places_of(config.layout.deterministic ? place.everyone : place.reduce, movements.has_two_hops(Movement::reduce));
  across_ = places_of(place.reduce_across, movements.has_two_hops(Movement::reduce_across));
  replicas_ = places_of(place.replicas, false);
  update_ = places_of(place.update, movements.has_two_hops(Movement::publish));
}

MovementTimes::Places MovementTimes::places_of(const std::vector<int64_t>& members, bool has_two_hops) const {
  const auto placed = [&](const std::vector<int64_t>& coordinates) {
    return place_of(mesh::ranks_of(coordinates, "", mesh_, 0), machine_, mesh_.size());
  };
  Places places{.whole = placed(members), .node = {}, .rails = {}};
  if (!has_two_hops) return places;
  const mesh::Hops hops = mesh::hops_of(members, sizes_, 0);
  places.node = placed(hops.node);
  places.rails = placed(hops.rails);
  places.ranks_in_node = std::ssize(hops.node);
  return places;
}

// Every part is a whole number of blocks, so the size of all payloads is that of one payload of all values.
MovementTime MovementTimes::call(Collective collective, config::WireType type, int64_t elements, int64_t element_bytes,
                                 const GroupPlace& group) const {
  const auto bytes = static_cast<double>(config::wire_bytes(type, elements, element_bytes));
  const CollectiveTime time = collective_time(collective, bytes, group, machine_, algorithms_);
  return {time.seconds, time.tier, sent_bytes(collective, bytes, group.ranks)};
}

MovementTime MovementTimes::reduction(Collective collective, int64_t elements, const GroupPlace& group) const {
  const config::WireType type = config_.layout.reduce_type;
  const int64_t gradient = config::element_bytes(config_.train.gradient_type);
  if (!config::is_quantized(type)) return call(collective, type, elements, gradient, group);
  MovementTime exchange = call(Collective::all_to_all, type, elements, gradient, group);
  if (collective != Collective::all_reduce) return exchange;
  const MovementTime sums = call(Collective::all_gather, type, elements, gradient, group);
  exchange.seconds += sums.seconds;
  exchange.bytes += sums.bytes;
  return exchange;
}

MovementTime MovementTimes::of(Movement movement, Hop hop, int64_t padded) const {
  const config::LayoutConfig& layout = config_.layout;
  const int64_t weight = config::element_bytes(config_.train.precision),
                gradient = config::element_bytes(config_.train.gradient_type);
  // Between the nodes, a rank gathers or reduces its share of what its node does.
  const auto elements = [hop](const Places& places, int64_t all) {
    return hop == Hop::rails ? all / places.ranks_in_node : all;
  };
  const auto group = [hop](const Places& places) -> const GroupPlace& {
    return hop == Hop::whole ? places.whole : hop == Hop::node ? places.node : places.rails;
  };
  const auto gather = [&](const Places& places, config::WireType type, int64_t all) {
    return call(Collective::all_gather, type, elements(places, all), weight, group(places));
  };
  const auto reduce = [&](const Places& places, int64_t all) {
    return reduction(Collective::reduce_scatter, elements(places, all), group(places));
  };
  switch (movement) {
    case Movement::gather_weights:
      return gather(gather_, layout.gather_type, padded);
    case Movement::reduce:
      return reduce(reduce_, padded);
    case Movement::reduce_across:
      return reduce(across_, padded / sizes_.gradients);
    case Movement::reduce_replicas:
      return reduction(Collective::all_reduce, padded / sizes_.optimizer, replicas_.whole);
    case Movement::gather_gradients:
      // These sums are final and keep their type.
      return call(Collective::all_gather, config::WireType::same, padded / sizes_.optimizer, gradient, replicas_.whole);
    case Movement::publish:
      return gather(update_, layout.update_type, padded / sizes_.weights);
  }
  return {};
}

}  // namespace terrace::plan
