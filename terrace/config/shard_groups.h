// Translates the field's names of sharding into three groups: the data-parallel ranks over which [layout] cuts weights,
// gradients and optimizer states.
#pragma once

#include "terrace/config/config.h"

namespace terrace::config {

struct ShardGroups {
  ShardGroup weights, gradients, optimizer;
};

// The groups that `sharding` stands for (the table of docs/sharding.md), where shard_weights, shard_gradients and
// shard_optimizer do not replace them. No group of the result is as_sharding.
ShardGroups shard_groups(const LayoutConfig& layout);

}  // namespace terrace::config
