// Translates the names of sharding into groups.
#include "terrace/config/shard_groups.h"

namespace terrace::config {
namespace {

using GroupWord = ShardGroup::Word;

ShardGroups named_groups(const LayoutConfig& layout) {
  const ShardGroup none{.word = GroupWord::none}, pair{.word = GroupWord::pair}, node{.word = GroupWord::node},
      all{.word = GroupWord::all};
  const ShardGroup own{.word = GroupWord::number, .number = layout.shard_group};
  switch (layout.sharding) {
    case Sharding::ddp:
      return {none, none, none};
    case Sharding::zero1:
      return {none, none, all};
    case Sharding::zero2:
      return {none, all, all};
    case Sharding::zero3:
      return {all, all, all};
    case Sharding::hybrid:
      return {own, own, own};
    case Sharding::node:
      return {node, all, all};
    case Sharding::three_level:
      return {pair, node, all};
  }
  return {none, none, none};
}

}  // namespace

ShardGroups shard_groups(const LayoutConfig& layout) {
  const auto chosen = [](const ShardGroup& given, const ShardGroup& named) {
    return given.word == GroupWord::as_sharding ? named : given;
  };
  const ShardGroups named = named_groups(layout);
  return {chosen(layout.shard_weights, named.weights), chosen(layout.shard_gradients, named.gradients),
          chosen(layout.shard_optimizer, named.optimizer)};
}

}  // namespace terrace::config
