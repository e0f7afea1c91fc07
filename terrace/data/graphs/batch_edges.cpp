// Concatenates the edges of graphs.
#include "terrace/data/graphs/batch_edges.h"

#include <array>
#include <cstddef>

#include "terrace/data/graphs/neighbours.h"

namespace terrace::data {

void BatchEdges::add(const NodesAndEdges& graph, const Cell& cell, bool with_pairs) {
  const NeighbourList& list = graph.edges;
  const int64_t nodes_before = nodes(), edges_before = edges();
  if (with_pairs) {
    const MutualPairs own = mutual_pairs(list);
    const int64_t pairs_before = std::ssize(first_edges);
    for (const int64_t pair : own.pairs) pairs.push_back(pairs_before + pair);
    for (const int64_t edge : own.first_edges) first_edges.push_back(edges_before + edge);
  }
  for (size_t edge = 0; edge < list.receivers.size(); ++edge) {
    receivers.push_back(nodes_before + list.receivers[edge]);
    senders.push_back(nodes_before + list.senders[edge]);
    const Vector3 moved = image_offset(list.shifts[edge], cell);
    for (size_t axis = 0; axis < 3; ++axis) {
      vectors.push_back(graph.positions[3 * static_cast<size_t>(list.senders[edge]) + axis] -
                        graph.positions[3 * static_cast<size_t>(list.receivers[edge]) + axis] + moved[axis]);
    }
  }
  for (size_t node = 1; node < list.first_edge.size(); ++node)
    first_edge.push_back(edges_before + list.first_edge[node]);
  features.insert(features.end(), graph.edge_features.begin(), graph.edge_features.end());
}

}  // namespace terrace::data
