// Sharded data parallelism as three nested groups W in G in O of the data-parallel ranks: which rank holds which part
// of a flat buffer of parameters, and which ranks take part in each of the three movements. Pure arithmetic;
// docs/sharding.md explains it.
//
// ZeRO's stages (Rajbhandari et al., arXiv 1910.02054), hybrid sharding (Zhao et al., arXiv 2304.11277), node-local
// secondary weights (Wang et al., arXiv 2306.10209) and three levels are settings of it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/mesh/group.h"
#include "terrace/mesh/mesh.h"

namespace terrace::mesh {

// The flat buffers of segments are padded to pieces of this many elements, of which the gradient norm is summed.
inline constexpr int64_t piece_elements = 1024;

// Each parameter begins at a multiple of so many elements of its flat buffer: a cache line of 16-bit elements, or a
// block of a quantized movement, so that no two parameters share a scale and tensor ranks round what they all hold
// alike.
int64_t parameter_alignment(const config::LayoutConfig& layout);

// The ranks that hold the same part of the layers: data-parallel ranks, each with samples of its own, times context
// ranks, each with positions of its own of the same samples. Both have gradients to be summed, so weights, gradients
// and optimizer states may be cut over both. In this file and wherever these are moved, they all are "data-parallel
// ranks", and a data coordinate is that of both axes, of which the context varies fastest.
inline constexpr Mesh::Joined shard_axes{.outer = "data", .inner = "context"};

// The numbers of data-parallel ranks over which weights, gradients and optimizer states are sharded. Each divides the
// next.
struct ShardSizes {
  int64_t weights = 1, gradients = 1, optimizer = 1;
  int64_t ranks = 1;  // the size of the data axis
  // Data-parallel ranks of a node where movements go by rails, and parts are numbered accordingly; 1: they do not.
  int64_t rails_node = 1;
  // Data-parallel ranks of a node where calls inside nodes have a type of their own (layout.node_type); 1: they do not.
  int64_t typed_node = 1;
  // Whether the copies of the optimizer states, each of `optimizer` ranks, make steps by themselves
  // (layout.outer_every).
  bool local_steps = false;

  // Whether a movement among ranks that differ from `inner` to `outer` of the ranks of these sizes has two hops.
  bool has_two_hops(int64_t inner, int64_t outer) const { return inner < rails_node && rails_node < outer; }
  // Whether all groups among ranks that differ in at most `outer` of the ranks lie inside nodes with such a type.
  bool is_inside_typed_node(int64_t outer) const { return outer > 1 && typed_node % outer == 0; }
  // Whether there are several such copies.
  bool has_local_copies() const { return local_steps && ranks > optimizer; }
  bool operator==(const ShardSizes&) const = default;
};

// The sizes that a configuration gives on a mesh. Throws UserError with every setting that does not fit the ranks, and
// with sizes that fit. The route "auto" counts as "flat" here.
ShardSizes shard_sizes(const config::LayoutConfig& layout, const Mesh& mesh);

// The sizes with movements by rails; none where the nodes have different numbers of data-parallel ranks, or a size is
// neither a multiple nor a divisor of this number.
std::optional<ShardSizes> rails_sizes(ShardSizes sizes, const Mesh& mesh);

// Part `number` of a buffer that is divided into `parts` equal parts.
struct Part {
  int64_t number = 0, parts = 1;

  int64_t size(int64_t total) const { return total / parts; }
  int64_t begin(int64_t total) const { return number * size(total); }
  bool operator==(const Part&) const = default;
};

// The parts and groups of one data-parallel rank. A rank's optimizer part lies inside its gradient part, and that
// inside its weight part. Groups are lists of data coordinates, which ranks_of() turns into ranks.
struct ShardPlace {
  ShardPlace(const ShardSizes& sizes, int64_t data_coordinate);

  ShardSizes sizes;
  Part weights, gradients, optimizer;
  // The part that only this rank initializes, saves and counts in the gradient norm: the optimizer part, divided among
  // the replicas that hold it.
  Part own;

  // The ranks that gather the weights before they are used. Members are ordered by weight part.
  std::vector<int64_t> gather;
  // The ranks that reduce the gradients of a micro-batch to gradient parts. Members are ordered by gradient part.
  std::vector<int64_t> reduce;
  // The ranks that reduce gradient parts to optimizer parts. Members are ordered by optimizer part.
  std::vector<int64_t> reduce_across;
  // The ranks with the same optimizer part, which all-reduce its gradients. Members are ordered by own part.
  std::vector<int64_t> replicas;
  // The ranks that gather updated weights from optimizer parts to weight parts. Members are ordered by optimizer part.
  std::vector<int64_t> update;
  // All data-parallel ranks. Members are ordered by own part.
  std::vector<int64_t> everyone;
  // The ranks that hold one copy of the optimizer states with this one. Members are ordered by optimizer part.
  std::vector<int64_t> copy;
};

// The two groups of one rank for a movement by rails: the members in its node, and those with the same place in their
// nodes. Member i of the first and member j of the second has block i J + j of the movement, where J is the number of
// nodes.
struct Hops {
  std::vector<int64_t> node, rails;
};
// The groups of the hops of a rank in a group of ShardPlace that has two hops.
Hops hops_of(const std::vector<int64_t>& members, const ShardSizes& sizes, int64_t data_coordinate);

// A group of data coordinates with a name, as ranks of the mesh.
Group ranks_of(const std::vector<int64_t>& data_coordinates, const char* name, const Mesh& mesh, int64_t rank);

// The size of a flat buffer for `elements` elements: the next multiple of `ranks` pieces of `piece` elements, so that
// every part is a whole number of pieces.
int64_t padded_size(int64_t elements, int64_t ranks, int64_t piece);

}  // namespace terrace::mesh
