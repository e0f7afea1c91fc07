// How sharded data parallelism is to work: the types of what it keeps, and the wire format and the route of each of its
// movements.
#pragma once

#include <c10/core/ScalarType.h>

#include <functional>
#include <memory>

#include "terrace/config/config.h"
#include "terrace/parallel/collective.h"
#include "terrace/parallel/groups.h"
#include "terrace/parallel/wire_format.h"
#include "terrace/schedule/step.h"

namespace terrace::parallel {

// Of weights that are gathered before they are used, of gradients that are summed, and of updated weights.
struct WireFormats {
  std::shared_ptr<const WireFormat> gather = element_format(config::WireType::same);
  std::shared_ptr<const WireFormat> reduce = element_format(config::WireType::same);
  std::shared_ptr<const WireFormat> update = element_format(config::WireType::same);
};

struct ShardingOptions {
  at::ScalarType gradient_type = at::kFloat;
  WireFormats formats = {};
  // The groups that a movement passes through; empty: the one group of mesh::ShardPlace. Of any route, the rank's block
  // must be the part that ShardPlace gives it.
  std::function<Route(schedule::Movement, DataGroups&)> route = {};
  bool deterministic = false;
  // For tests: whole weights are NaN until they are gathered, so that a use at the wrong time shows.
  bool poison = false;
};

ShardingOptions sharding_options(const config::LayoutConfig& layout, at::ScalarType gradient_type);

// How a movement travels. This is the only place that decides it. `groups` outlive the result.
Collective collective_of(schedule::Movement movement, DataGroups& groups, const ShardingOptions& options);

}  // namespace terrace::parallel
