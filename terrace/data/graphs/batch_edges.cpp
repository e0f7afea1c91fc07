// Concatenates the edges of graphs.
#include "terrace/data/graphs/batch_edges.h"

#include <array>
#include <cstddef>
#include <numeric>

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

// By counting, which keeps the order of the elements of a row.
OrderByRow order_by_row(const std::vector<int64_t>& rows, int64_t num_rows) {
  OrderByRow result{.order = std::vector<int64_t>(rows.size()),
                    .first = std::vector<int64_t>(static_cast<size_t>(num_rows) + 1)};
  for (const int64_t row : rows) ++result.first[static_cast<size_t>(row) + 1];
  std::partial_sum(result.first.begin(), result.first.end(), result.first.begin());
  std::vector<int64_t> next = result.first;
  for (size_t element = 0; element < rows.size(); ++element) {
    result.order[static_cast<size_t>(next[static_cast<size_t>(rows[element])]++)] = static_cast<int64_t>(element);
  }
  return result;
}

}  // namespace terrace::data
