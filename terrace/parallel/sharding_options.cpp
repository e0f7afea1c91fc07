// Chooses the wire format and the groups of each movement.
#include "terrace/parallel/sharding_options.h"

#include "terrace/base/error.h"
#include "terrace/config/wire_type.h"

namespace terrace::parallel {
namespace {

using schedule::Movement;

Route route_of(Movement movement, DataGroups& groups, bool deterministic) {
  const auto route = [](comm::Comm* whole, HopGroups& hops) {
    return whole != nullptr ? Route(*whole) : Route(*hops.node, *hops.rails);
  };
  switch (movement) {
    case Movement::gather_weights:
      return route(groups.gather.get(), groups.gather_hops);
    case Movement::reduce:
      // Deterministic training sums over all data-parallel ranks at once.
      return deterministic ? *groups.everyone : route(groups.reduce.get(), groups.reduce_hops);
    case Movement::reduce_across:
      return route(groups.reduce_across.get(), groups.reduce_across_hops);
    case Movement::reduce_replicas:
    case Movement::gather_gradients:
      return *groups.replicas;
    case Movement::publish:
      return route(groups.update.get(), groups.update_hops);
  }
  TERRACE_CHECK(false, "movement {}", static_cast<int>(movement));
}

std::shared_ptr<const WireFormat> format_of(Movement movement, const WireFormats& formats) {
  switch (movement) {
    case Movement::gather_weights:
      return formats.gather;
    case Movement::reduce:
    case Movement::reduce_across:
    case Movement::reduce_replicas:
      return formats.reduce;
    case Movement::gather_gradients:
      // These sums are final: another type would change them, and deterministic training promises the bits of layouts
      // without replicas.
      return element_format(config::WireType::same);
    case Movement::publish:
      return formats.update;
  }
  TERRACE_CHECK(false, "movement {}", static_cast<int>(movement));
}

std::shared_ptr<const WireFormat> node_format(const config::LayoutConfig& layout) {
  if (layout.node_type == config::NodeType::as_others) return nullptr;
  return element_format(config::inside_node(layout, config::WireType::int8));
}

}  // namespace

ShardingOptions sharding_options(const config::LayoutConfig& layout, at::ScalarType gradient_type) {
  return {.gradient_type = gradient_type,
          // Errors of weights do not add up, since each rounding begins with the unrounded weights; those of gradients
          // must have the mean zero.
          .formats = {.gather = wire_format(layout.gather_type, Rounding::nearest),
                      .reduce = wire_format(layout.reduce_type, Rounding::random),
                      .update = wire_format(layout.update_type, Rounding::nearest),
                      .node = node_format(layout)},
          .feedback = layout.error_feedback ? std::optional(code_of(layout.reduce_type)) : std::nullopt,
          .alignment = mesh::parameter_alignment(layout),
          .deterministic = layout.deterministic};
}

Collective collective_of(Movement movement, DataGroups& groups, const ShardingOptions& options,
                         const ops::RoundingDraw& draw, ErrorFeedback* feedback) {
  const Route route =
      options.route ? options.route(movement, groups) : route_of(movement, groups, options.deterministic);
  const std::shared_ptr<const WireFormat> given = format_of(movement, options.formats);
  const auto format = [&](schedule::Hop hop) {
    const bool has_own_type = options.formats.node && !given->summable() &&
                              schedule::is_inside_typed_node(movement, hop, groups.place.sizes, options.deterministic);
    return has_own_type ? options.formats.node : given;
  };
  if (route.outer == nullptr) return Collective(format(schedule::Hop::whole), route, draw, feedback);
  return Collective({format(schedule::Hop::node), format(schedule::Hop::rails)}, route, draw, feedback);
}

}  // namespace terrace::parallel
