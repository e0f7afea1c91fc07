// The table of layouts of the tests; a new layout is one line.
#pragma once

#include <string>
#include <vector>

#include "terrace/config/config.h"

namespace terrace::parallel {

struct Layout {
  int64_t ranks;
  std::vector<std::string> keys;  // keys of the table [layout]

  Layout with(const std::vector<std::string>& more) const {
    Layout layout = *this;
    layout.keys.insert(layout.keys.end(), more.begin(), more.end());
    return layout;
  }

  std::string name() const {
    std::string text = std::to_string(ranks);
    for (const std::string& key : keys) text += " " + key;
    return text;
  }
};

inline std::vector<Layout> all_layouts() {
  return {
      {1, {"sharding=ddp"}},
      {1, {"sharding=zero3"}},
      {2, {"sharding=ddp"}},
      {2, {"sharding=zero1"}},
      {2, {"sharding=zero2"}},
      {2, {"sharding=zero3"}},
      {2, {"sharding=hybrid", "shard_group=2"}},
      {2, {"sharding=node"}},
      {2, {"sharding=three_level"}},
      {3, {"sharding=ddp"}},
      {3, {"sharding=zero1"}},
      {3, {"sharding=zero2"}},
      {3, {"sharding=zero3"}},
      {3, {"sharding=hybrid", "shard_group=1"}},
      {3, {"sharding=node"}},
      {3, {"sharding=three_level", "ranks_per_pair=1"}},
      {4, {"sharding=ddp"}},
      {4, {"sharding=zero1"}},
      {4, {"sharding=zero2"}},
      {4, {"sharding=zero3"}},
      {4, {"sharding=hybrid", "shard_group=2"}},
      {4, {"sharding=node", "ranks_per_node=2"}},
      {4, {"sharding=three_level", "ranks_per_pair=1", "ranks_per_node=2"}},
      {6, {"sharding=ddp"}},
      {6, {"sharding=zero1"}},
      {6, {"sharding=zero2"}},
      {6, {"sharding=zero3"}},
      {6, {"sharding=hybrid", "shard_group=3"}},
      {6, {"sharding=node", "ranks_per_node=3", "ranks_per_pair=1"}},
      {6, {"sharding=three_level", "ranks_per_node=6", "ranks_per_pair=3"}},
      {8, {"sharding=ddp"}},
      {8, {"sharding=zero1"}},
      {8, {"sharding=zero2"}},
      {8, {"sharding=zero3"}},
      {8, {"sharding=hybrid", "shard_group=4"}},
      {8, {"sharding=node", "ranks_per_node=4"}},
      {8, {"sharding=three_level", "ranks_per_node=4"}},
      // Group sizes that no value of `sharding` has.
      {8, {"shard_gradients=2", "shard_optimizer=4"}},
      {8, {"shard_weights=2", "shard_gradients=2", "shard_optimizer=8", "prefetch=0"}},
      {6, {"shard_weights=2", "shard_gradients=6", "shard_optimizer=6", "prefetch=3"}},
      // Movements of two hops.
      {4, {"sharding=zero1", "ranks_per_node=2", "route=rails"}},
      {4, {"sharding=zero3", "ranks_per_node=2", "route=rails"}},
      {6, {"sharding=zero2", "ranks_per_node=3", "ranks_per_pair=1", "route=rails"}},
      {6,
       {"shard_weights=6", "shard_gradients=6", "shard_optimizer=6", "ranks_per_node=2", "prefetch=2", "route=rails"}},
      {8, {"sharding=three_level", "ranks_per_node=4", "route=rails"}},
      {8, {"shard_weights=2", "shard_gradients=2", "shard_optimizer=8", "ranks_per_node=4", "route=rails"}},
  };
}

// Layouts with tensor parallelism. cut_llama_sharing allows two and four tensor ranks, the other models two, three and
// four; the sequence is not divisible by three.
inline std::vector<Layout> tensor_layouts(int64_t tensor) {
  const std::string cut = "tensor=" + std::to_string(tensor), sequence = "sequence_parallel=true";
  switch (tensor) {
    case 2:
      return {{2, {cut}},
              {2, {cut, sequence}},
              {4, {cut, "sharding=zero3"}},
              {4, {cut, sequence, "sharding=zero1"}},
              {6, {cut, sequence, "sharding=zero2"}},
              {8, {cut, sequence, "sharding=three_level", "ranks_per_node=4"}},
              {8, {cut, "sharding=hybrid", "shard_group=2"}}};
    case 3:
      return {{3, {cut}}, {6, {cut, "sharding=zero1"}}, {6, {cut, "sharding=zero3"}}};
    default:
      return {{4, {cut}},
              {4, {cut, sequence}},
              {8, {cut, "sharding=zero1"}},
              {8, {cut, sequence, "sharding=zero3"}},
              {8, {cut, sequence, "sharding=node", "ranks_per_node=8"}}};
  }
}

// Layouts with so many context ranks, whose attention goes by the route. Heads of tensor ranks must divide for "heads".
inline std::vector<Layout> context_layouts(int64_t context, const std::string& route) {
  const std::string cut = "context=" + std::to_string(context), by = "context_route=" + route;
  const std::string tensor = "tensor=2", sequence = "sequence_parallel=true";
  return {{context, {cut, by}},
          {context, {cut, by, "sharding=zero1"}},
          {2 * context, {cut, by, "sharding=zero3"}},
          {2 * context, {cut, by, tensor, sequence, "sharding=zero2"}},
          {2 * context, {cut, by, tensor}},
          {2 * context, {cut, by, "pipeline=2", "sharding=zero1"}},
          {2 * context,
           {cut, by, "shard_weights=2", "shard_gradients=2", "shard_optimizer=" + std::to_string(2 * context)}}};
}

// A few layouts that together use every movement.
inline std::vector<Layout> some_layouts() {
  return {
      {2, {"sharding=zero1"}},
      {2, {"sharding=zero3", "prefetch=0"}},
      {3, {"sharding=zero2"}},
      {4, {"sharding=hybrid", "shard_group=2"}},
      {4, {"sharding=node", "ranks_per_node=2", "prefetch=2"}},
      {8, {"sharding=three_level", "ranks_per_node=4"}},
      {8, {"shard_gradients=2", "shard_optimizer=4"}},
      {4, {"sharding=zero3", "ranks_per_node=2", "route=rails"}},
      {8, {"shard_weights=2", "shard_gradients=2", "shard_optimizer=8", "ranks_per_node=4", "route=rails"}},
  };
}

// Layouts that together feed the errors of every reduction back.
inline std::vector<Layout> feedback_layouts() {
  const auto with = [](const Layout& layout, const char* type) { return layout.with({type, "error_feedback=true"}); };
  return {
      with({2, {"sharding=zero1"}}, "reduce_type=int8"),
      with({3, {"sharding=ddp"}}, "reduce_type=int4"),
      with({3, {"sharding=zero2"}}, "reduce_type=fp8"),
      with({4, {"sharding=zero3", "gather_type=int8"}}, "reduce_type=int4"),
      with({4, {"sharding=hybrid", "shard_group=2"}}, "reduce_type=int4"),
      with({4, {"sharding=three_level", "ranks_per_pair=1", "ranks_per_node=2"}}, "reduce_type=int4"),
      with({4, {"sharding=zero3", "ranks_per_node=2", "route=rails"}}, "reduce_type=int4"),
      with({8, {"shard_gradients=2", "shard_optimizer=4"}}, "reduce_type=int8"),
      with({8, {"shard_gradients=2", "shard_optimizer=4", "ranks_per_node=2", "node_type=bf16"}}, "reduce_type=int8"),
      with({4, {"sharding=zero3", "ranks_per_node=2", "route=rails", "node_type=same"}}, "reduce_type=int4"),
      with({8, {"shard_weights=2", "shard_gradients=2", "shard_optimizer=8", "ranks_per_node=4", "route=rails"}},
           "reduce_type=int4"),
  };
}

}  // namespace terrace::parallel
