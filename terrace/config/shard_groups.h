// Over which data-parallel ranks [layout] cuts weights, gradients and optimizer states: the names of the field as three
// groups.
#pragma once

#include "terrace/config/config.h"

namespace terrace::config {

struct ShardGroups {
  ShardGroup weights, gradients, optimizer;
};

// What `sharding` stands for, with the groups that shard_weights, shard_gradients and shard_optimizer give in its
// place. None is as_named. The table of docs/sharding.md.
ShardGroups shard_groups(const LayoutConfig& layout);

}  // namespace terrace::config
