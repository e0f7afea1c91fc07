// The options of sharded data parallelism: the type of gradients, and the wire format and the route of each movement.
#pragma once

#include <c10/core/ScalarType.h>

#include <functional>
#include <memory>
#include <optional>

#include "terrace/config/config.h"
#include "terrace/mesh/shards.h"
#include "terrace/parallel/collective.h"
#include "terrace/parallel/groups.h"
#include "terrace/parallel/wire_format.h"
#include "terrace/schedule/step/step.h"

namespace terrace::parallel {

// The wire formats of weights that are gathered for use, of gradients that are summed, and of updated weights.
struct WireFormats {
  std::shared_ptr<const WireFormat> gather = element_format(config::WireType::same);
  std::shared_ptr<const WireFormat> reduce = element_format(config::WireType::same);
  std::shared_ptr<const WireFormat> update = element_format(config::WireType::same);
  // The format of calls inside one node, in place of formats of bytes; null: these calls have the formats of the
  // others.
  std::shared_ptr<const WireFormat> node = nullptr;
};

struct ShardingOptions {
  at::ScalarType gradient_type = at::kFloat;
  WireFormats formats = {};
  // The code of reductions whose errors are fed back: that of formats.reduce. None: errors are not kept.
  std::optional<ops::BlockCode> feedback = {};
  // Elements at multiples of which parameters begin in the flat buffers.
  int64_t alignment = mesh::parameter_alignment({});
  // The groups over which a movement goes; where the function is empty, the group that mesh::ShardPlace names, or the
  // two groups of its hops. Whatever the route, the block that a rank gets is its part by mesh::ShardPlace.
  std::function<Route(schedule::Movement, DataGroups&)> route = {};
  bool deterministic = false;
  // Set in tests: whole weights are NaN until they are gathered, and gradients until something is stored, so that a use
  // at the wrong time gives NaN.
  bool poison = false;
};

ShardingOptions sharding_options(const config::LayoutConfig& layout, at::ScalarType gradient_type);

// The collective of a movement, chosen here only. `groups` outlive the result.
Collective collective_of(schedule::Movement movement, DataGroups& groups, const ShardingOptions& options,
                         const ops::RoundingDraw& draw = {}, ErrorFeedback* feedback = nullptr);

}  // namespace terrace::parallel
