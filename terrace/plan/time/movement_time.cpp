// Times each call of a movement by the place of its group on the machine.
#include "terrace/plan/time/movement_time.h"

#include "terrace/config/wire_type.h"
#include "terrace/mesh/experts.h"

namespace terrace::plan {

using schedule::Hop;
using schedule::Movement;

MovementTimes::MovementTimes(const config::Config& config, const mesh::Mesh& mesh, const mesh::ShardSizes& sizes,
                             const machine::Machine& machine, const std::vector<Algorithm>& algorithms, int64_t experts)
    : config_(config),
      mesh_(mesh),
      sizes_(sizes),
      experts_(experts),
      machine_(machine),
      algorithms_(algorithms),
      rails_gather_(config.layout.rails_gather == config::RailsGather::doubling ? std::vector{Algorithm::bruck}
                                                                                : algorithms) {
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
    const mesh::Group ranks = experts_ > 0 ? mesh::expert_replicas(coordinates, "", mesh_, 0, experts_)
                                           : mesh::ranks_of(coordinates, "", mesh_, 0);
    return place_of(ranks, machine_, mesh_.size());
  };
  Places places{.whole = placed(members), .node = {}, .rails = {}};
  if (!has_two_hops) return places;
  const mesh::Hops hops = mesh::hops_of(members, sizes_, 0);
  places.node = placed(hops.node);
  places.rails = placed(hops.rails);
  places.ranks_in_node = std::ssize(hops.node);
  return places;
}

const GroupPlace& MovementTimes::Places::of(Hop hop) const {
  return hop == Hop::whole ? whole : hop == Hop::node ? node : rails;
}

int64_t MovementTimes::Places::moved(Hop hop, int64_t elements) const {
  return hop == Hop::rails ? elements / ranks_in_node : elements;
}

// Every part is a whole number of blocks, so the size of all payloads is that of one payload of all values.
MovementTime MovementTimes::call(CollectiveKind collective, config::WireType type, int64_t elements,
                                 int64_t element_bytes, const GroupPlace& group,
                                 const std::vector<Algorithm>& algorithms) const {
  const auto bytes = static_cast<double>(config::wire_bytes(type, elements, element_bytes));
  const CollectiveTime time = collective_time(collective, bytes, group, machine_, algorithms);
  return {time.seconds, time.tier, sent_bytes(collective, bytes, group.ranks)};
}

double MovementTimes::encoding(double values, double rate) const {
  return 4 * values / (rate > 0 ? rate : machine_.device.memory_bandwidth);
}

double MovementTimes::converting(double values, config::WireType type, config::Precision kept) const {
  if (!config::is_converted(type, kept)) return 0;
  const auto bytes = static_cast<double>(config::element_bytes(kept) + config::wire_bytes(type, 1, 0));
  return values * bytes / machine_.device.memory_bandwidth;
}

// The owner encodes its part to nearest before the first hop, and all ranks decode the payloads after the last one in
// their type.
MovementTime MovementTimes::gather(Movement movement, const Places& places, Hop hop, int64_t elements) const {
  const auto type_of = [&](Hop one) { return schedule::wire_type(config_.layout, sizes_, movement, one); };
  const config::WireType type = type_of(hop);
  MovementTime time = call(CollectiveKind::all_gather, type, places.moved(hop, elements),
                           config::element_bytes(config_.train.precision), places.of(hop),
                           hop == Hop::rails ? rails_gather_ : algorithms_);
  if (places.whole.ranks == 1) return time;
  const auto values = static_cast<double>(elements), own = values / static_cast<double>(places.whole.ranks);
  if (!config::is_quantized(type)) {
    // Payloads between the nodes are decoded to the type in which weights are kept.
    const bool follows_decoding = hop == Hop::node && config::is_quantized(type_of(Hop::rails));
    const double before = follows_decoding   ? values / static_cast<double>(places.ranks_in_node)
                          : hop == Hop::node ? 0
                                             : own;
    const double after = hop == Hop::rails ? 0 : values;
    time.coding = converting(before + after, type, config_.train.precision);
    return time;
  }
  if (hop != Hop::node) time.coding += encoding(own, machine_.device.encode);
  const bool is_decoded = hop != Hop::rails || !config::is_quantized(type_of(Hop::node));
  if (is_decoded) {
    time.coding += encoding(static_cast<double>(places.moved(hop, elements)), machine_.device.decode);
  }
  return time;
}

// In a quantized type a rank encodes all values at random, and decodes as many, one part from each rank. With error
// feedback it instead encodes its own values to nearest, and decodes the errors and its own payload and encodes the new
// errors; the sums between nodes are encoded at random all the same.
MovementTime MovementTimes::reduction(Movement movement, CollectiveKind collective, int64_t elements,
                                      const GroupPlace& group, Hop hop) const {
  const config::WireType type = schedule::wire_type(config_.layout, sizes_, movement, hop);
  const int64_t gradient = config::element_bytes(config_.train.gradient_type);
  const auto values = static_cast<double>(elements);
  if (!config::is_quantized(type)) {
    MovementTime sums = call(collective, type, elements, gradient, group);
    if (group.ranks == 1) return sums;
    // By rails the sums of a node go on in the type in which they were taken.
    const double before = hop == Hop::rails ? 0 : values;
    const double kept = collective == CollectiveKind::all_reduce ? values : values / static_cast<double>(group.ranks);
    const double after = hop == Hop::node ? 0 : kept;
    sums.coding = converting(before + after, type, config_.train.gradient_type);
    return sums;
  }
  MovementTime exchange = call(CollectiveKind::all_to_all, type, elements, gradient, group);
  if (group.ranks == 1) return exchange;
  const machine::Device& device = machine_.device;
  const bool feeds_back = config_.layout.error_feedback && hop != Hop::rails;
  exchange.coding = feeds_back ? 2 * (encoding(values, device.encode) + encoding(values, device.decode))
                               : encoding(values, device.encode_at_random);
  exchange.coding += encoding(values, device.decode);
  if (collective != CollectiveKind::all_reduce) return exchange;
  const MovementTime sums = call(CollectiveKind::all_gather, type, elements, gradient, group);
  exchange.seconds += sums.seconds;
  exchange.bytes += sums.bytes;
  exchange.coding +=
      encoding(values / static_cast<double>(group.ranks), device.encode) + encoding(values, device.decode);
  return exchange;
}

MovementTime MovementTimes::of(Movement movement, Hop hop, int64_t padded) const {
  const auto reduce = [&](const Places& places, int64_t all) {
    return reduction(movement, CollectiveKind::reduce_scatter, places.moved(hop, all), places.of(hop), hop);
  };
  switch (movement) {
    case Movement::gather_weights:
      return gather(movement, gather_, hop, padded);
    case Movement::reduce:
      return reduce(reduce_, schedule::reduced_elements(movement, sizes_, padded));
    case Movement::reduce_across:
      return reduce(across_, schedule::reduced_elements(movement, sizes_, padded));
    case Movement::reduce_replicas:
      return reduction(movement, CollectiveKind::all_reduce, schedule::reduced_elements(movement, sizes_, padded),
                       replicas_.whole, hop);
    case Movement::gather_gradients:
      // These sums are final and keep their type.
      return call(CollectiveKind::all_gather, config::WireType::same, padded / sizes_.optimizer,
                  config::element_bytes(config_.train.gradient_type), replicas_.whole);
    case Movement::publish:
      return gather(movement, update_, hop, padded / sizes_.weights);
  }
  return {};
}

}  // namespace terrace::plan
