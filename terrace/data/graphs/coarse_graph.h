// Joins the nodes of a graph in pairs, and makes the smaller graph of these clusters: the same for a graph alone, in
// any batch and on any rank, as it depends on the graph alone.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "terrace/data/graphs/neighbours.h"
#include "terrace/data/graphs/structures/cell.h"

namespace terrace::data {

// The nodes of a graph and the edges between them. At the finest level nodes are atoms.
struct NodesAndEdges {
  std::vector<double> positions = {};     // [nodes, 3]
  NeighbourList edges = {};               // sorted by (receiver, sender, shift)
  std::vector<float> edge_features = {};  // [edges, columns]
  bool mutual = false;                    // whether each edge is known to have one back

  int64_t nodes() const { return static_cast<int64_t>(positions.size()) / 3; }
};

// The rule that says which edge joins its two nodes first.
enum class JoinOrder {
  length,  // the shortest edge; lengths that round to the same multiple of 1e-6 are ties
  degree,  // the edge of the largest 1 / d_i + 1 / d_j, where d is the number of edges that a node receives and sends
};

// A matching by heavy edges as in Graclus (Dhillon, Guan and Kulis, IEEE TPAMI 29, 2007), whose criterion for edges
// without weights is JoinOrder::degree. It differs in that edges are taken in the order above in place of nodes in a
// random order: each joins its nodes if both are still single, and what stays single is a cluster of one node. Ties go
// by (smaller node, larger node, shift), so that without ties the clusters do not depend on the order of the nodes. An
// edge from a node to itself or to its own image joins nothing.
struct Clusters {
  int64_t clusters = 0;
  std::vector<int64_t> of_nodes = {};  // [nodes]; clusters are numbered by their first nodes, ascending
  // [nodes]: the image of each node that lies in its cluster, 0 of first nodes. Two nodes that several edges join are
  // in one cluster with the image to which the first of these edges leads.
  std::vector<std::array<int32_t, 3>> shifts = {};
  bool operator==(const Clusters&) const = default;
};
Clusters clusters_of(const NodesAndEdges& graph, const Cell& cell, JoinOrder order);

// Returns the graph of the clusters, each of which lies at the mean of its nodes. For each edge that leaves a cluster,
// to another one or to an image of itself, there is one between the clusters; those with the same receiver, sender and
// shift are one edge, which has the mean of their features. If the edges of the graph are mutual, so are those of the
// result.
NodesAndEdges coarse_graph(const NodesAndEdges& graph, const Cell& cell, const Clusters& clusters);

}  // namespace terrace::data
