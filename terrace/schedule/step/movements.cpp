// Derives the movements of a step from the groups over which weights, gradients and optimizer states are sharded.
#include <algorithm>
#include <iterator>

#include "terrace/base/error.h"
#include "terrace/config/wire_type.h"
#include "terrace/schedule/step/step.h"

namespace terrace::schedule {

bool Movements::has_two_hops(Movement movement) const {
  return std::ranges::find(two_hops, movement) != two_hops.end();
}

bool Movements::has(Movement movement) const {
  switch (movement) {
    case Movement::gather_weights:
      return gathers;
    case Movement::reduce:
      return reduces_each;
    case Movement::publish:
      return publishes;
    default:
      return std::ranges::find(after_last, movement) != after_last.end();
  }
}

int64_t Movements::uses_ahead() const { return prefetch + (has_two_hops(Movement::gather_weights) ? 1 : 0); }

std::vector<Movement> Movements::reductions() const {
  std::vector<Movement> list;
  if (reduces_each) list.push_back(Movement::reduce);
  std::ranges::copy_if(after_last, std::back_inserter(list),
                       [](Movement movement) { return movement != Movement::gather_gradients; });
  return list;
}

int64_t reduced_elements(Movement reduction, const mesh::ShardSizes& sizes, int64_t padded) {
  switch (reduction) {
    case Movement::reduce:
      return padded;
    case Movement::reduce_across:
      return padded / sizes.gradients;
    case Movement::reduce_replicas:
      return padded / sizes.optimizer;
    case Movement::gather_weights:
    case Movement::gather_gradients:
    case Movement::publish:
      break;
  }
  TERRACE_CHECK(false, "{} sums no gradients", to_string(reduction));
}

namespace {

// The ranks of a movement's group differ in at most so many of the data-parallel ranks.
int64_t reach_of(Movement movement, const mesh::ShardSizes& sizes, bool deterministic) {
  switch (movement) {
    case Movement::gather_weights:
      return sizes.weights;
    case Movement::reduce:
      return deterministic ? sizes.ranks : sizes.gradients;
    case Movement::reduce_across:
    case Movement::publish:
      return sizes.optimizer;
    case Movement::reduce_replicas:
    case Movement::gather_gradients:
      return sizes.ranks;
  }
  TERRACE_CHECK(false, "movement {}", static_cast<int>(movement));
}

config::WireType type_between_nodes(const config::LayoutConfig& layout, Movement movement) {
  switch (movement) {
    case Movement::gather_weights:
      return layout.gather_type;
    case Movement::reduce:
    case Movement::reduce_across:
    case Movement::reduce_replicas:
      return layout.reduce_type;
    case Movement::gather_gradients:
      return config::WireType::same;  // these sums are final
    case Movement::publish:
      return layout.update_type;
  }
  TERRACE_CHECK(false, "movement {}", static_cast<int>(movement));
}

}  // namespace

bool is_inside_typed_node(Movement movement, Hop hop, const mesh::ShardSizes& sizes, bool deterministic) {
  if (hop != Hop::whole) return hop == Hop::node && sizes.typed_node > 1;
  return sizes.is_inside_typed_node(reach_of(movement, sizes, deterministic));
}

config::WireType wire_type(const config::LayoutConfig& layout, const mesh::ShardSizes& sizes, Movement movement,
                           Hop hop) {
  const config::WireType type = type_between_nodes(layout, movement);
  return is_inside_typed_node(movement, hop, sizes, layout.deterministic) ? config::inside_node(layout, type) : type;
}

bool feeds_back(const config::LayoutConfig& layout, const mesh::ShardSizes& sizes, Movement reduction) {
  if (!layout.error_feedback) return false;
  const Hop first = movements_of(sizes, layout.deterministic).hops(reduction).front();
  return config::is_quantized(wire_type(layout, sizes, reduction, first));
}

std::vector<Movement> fed_back_reductions(const config::LayoutConfig& layout, const mesh::ShardSizes& sizes) {
  std::vector<Movement> reductions = movements_of(sizes, layout.deterministic).reductions();
  std::erase_if(reductions, [&](Movement reduction) { return !feeds_back(layout, sizes, reduction); });
  return reductions;
}

Movements movements_of(const mesh::ShardSizes& sizes, bool deterministic, int64_t prefetch) {
  Movements movements{.gathers = sizes.weights > 1,
                      .reduces_each = sizes.ranks > 1 && (sizes.gradients > 1 || deterministic),
                      .publishes = sizes.optimizer > sizes.weights,
                      .prefetch = prefetch};
  const auto by_rails = [&](Movement movement, int64_t inner, int64_t outer) {
    if (sizes.has_two_hops(inner, outer)) movements.two_hops.push_back(movement);
  };
  by_rails(Movement::gather_weights, 1, sizes.weights);
  by_rails(Movement::publish, sizes.weights, sizes.optimizer);
  if (deterministic && sizes.ranks > 1) {
    if (sizes.ranks > sizes.optimizer) movements.after_last.push_back(Movement::gather_gradients);
    return movements;
  }
  by_rails(Movement::reduce, 1, sizes.gradients);
  by_rails(Movement::reduce_across, sizes.gradients, sizes.optimizer);
  if (sizes.optimizer > sizes.gradients) movements.after_last.push_back(Movement::reduce_across);
  if (sizes.ranks > sizes.optimizer && !sizes.local_steps) movements.after_last.push_back(Movement::reduce_replicas);
  return movements;
}

Movements united(Movements first, const Movements& second) {
  first.gathers |= second.gathers;
  first.reduces_each |= second.reduces_each;
  first.publishes |= second.publishes;
  std::vector<Movement> all = first.after_last;
  all.insert(all.end(), second.after_last.begin(), second.after_last.end());
  // In the order of their numbers, in which they follow each other.
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  first.after_last = std::move(all);
  return first;
}

}  // namespace terrace::schedule
