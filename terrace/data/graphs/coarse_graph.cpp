// Matches nodes by their edges, and merges edges between clusters.
#include "terrace/data/graphs/coarse_graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <tuple>
#include <utility>

#include "terrace/data/graphs/order_by_row.h"

namespace terrace::data {
namespace {

using Shift = std::array<int32_t, 3>;

constexpr double rounding_angstrom = 1e-6;

Shift sum(const Shift& a, const Shift& b) { return {a[0] + b[0], a[1] + b[1], a[2] + b[2]}; }
Shift negative(const Shift& a) { return {-a[0], -a[1], -a[2]}; }

// An edge between two nodes in either direction, to the image of the second one that `shift` says.
struct Join {
  double rank = 0;
  int32_t first = 0, second = 0;
  Shift shift = {};
  bool operator<(const Join& other) const {
    return std::tie(rank, first, second, shift) < std::tie(other.rank, other.first, other.second, other.shift);
  }
};

double rounded_length(const NodesAndEdges& graph, const Cell& cell, const Join& join) {
  Vector3 vector = image_offset(join.shift, cell);
  for (size_t axis = 0; axis < 3; ++axis) {
    vector[axis] += graph.positions[3 * static_cast<size_t>(join.second) + axis] -
                    graph.positions[3 * static_cast<size_t>(join.first) + axis];
  }
  return std::round(length(vector) / rounding_angstrom);
}

// Returns the numbers of edges that nodes receive and send.
std::vector<double> degrees_of(const NodesAndEdges& graph) {
  std::vector<double> degrees(static_cast<size_t>(graph.nodes()));
  for (const auto* nodes : {&graph.edges.receivers, &graph.edges.senders}) {
    for (const int32_t node : *nodes) ++degrees[static_cast<size_t>(node)];
  }
  return degrees;
}

std::vector<Join> joins_of(const NodesAndEdges& graph, const Cell& cell, JoinOrder order) {
  const std::vector<double> degrees = order == JoinOrder::degree ? degrees_of(graph) : std::vector<double>();
  std::vector<Join> joins;
  for (size_t edge = 0; edge < graph.edges.receivers.size(); ++edge) {
    const int32_t receiver = graph.edges.receivers[edge], sender = graph.edges.senders[edge];
    const Shift& shift = graph.edges.shifts[edge];
    if (receiver == sender || (graph.mutual && receiver > sender)) continue;
    Join join = receiver < sender ? Join{.first = receiver, .second = sender, .shift = shift}
                                  : Join{.first = sender, .second = receiver, .shift = negative(shift)};
    join.rank = order == JoinOrder::length
                    ? rounded_length(graph, cell, join)
                    : -(1 / degrees[static_cast<size_t>(receiver)] + 1 / degrees[static_cast<size_t>(sender)]);
    joins.push_back(join);
  }
  std::ranges::sort(joins, std::less<>());
  return joins;
}

// An edge from a cluster, and the edge of the finer graph that it comes from.
struct CoarseEdge {
  int64_t sender = 0;
  Shift shift = {};
  size_t edge = 0;
  bool operator<(const CoarseEdge& other) const {
    return std::tie(sender, shift, edge) < std::tie(other.sender, other.shift, other.edge);
  }
  bool is_with(const CoarseEdge& other) const { return sender == other.sender && shift == other.shift; }
};

// Finds the edges to a cluster with the given members, sorted.
void find_edges(const NodesAndEdges& graph, const Clusters& clusters, std::span<const int64_t> members,
                std::vector<CoarseEdge>& found) {
  found.clear();
  for (const int64_t member : members) {
    const auto receiver = static_cast<size_t>(member);
    for (int64_t edge = graph.edges.first_edge[receiver]; edge < graph.edges.first_edge[receiver + 1]; ++edge) {
      const auto number = static_cast<size_t>(edge), sender = static_cast<size_t>(graph.edges.senders[number]);
      const CoarseEdge one{
          .sender = clusters.of_nodes[sender],
          .shift = sum(sum(graph.edges.shifts[number], clusters.shifts[receiver]), negative(clusters.shifts[sender])),
          .edge = number};
      if (one.sender == clusters.of_nodes[receiver] && one.shift == Shift{}) continue;
      found.push_back(one);
    }
  }
  std::ranges::sort(found, std::less<>());
}

std::vector<double> mean_positions(const NodesAndEdges& graph, const Cell& cell, const Clusters& clusters) {
  std::vector<double> sums(3 * static_cast<size_t>(clusters.clusters));
  std::vector<double> counts(static_cast<size_t>(clusters.clusters));
  for (size_t node = 0; node < clusters.of_nodes.size(); ++node) {
    const auto cluster = static_cast<size_t>(clusters.of_nodes[node]);
    const Vector3 moved = image_offset(clusters.shifts[node], cell);
    for (size_t axis = 0; axis < 3; ++axis) sums[3 * cluster + axis] += graph.positions[3 * node + axis] + moved[axis];
    ++counts[cluster];
  }
  for (size_t i = 0; i < sums.size(); ++i) sums[i] /= counts[i / 3];
  return sums;
}

// Adds the mean features of the edges that became one.
void add_mean_features(const NodesAndEdges& graph, std::span<const CoarseEdge> merged, std::vector<float>& features) {
  const size_t columns = graph.edge_features.size() / graph.edges.receivers.size();
  for (size_t column = 0; column < columns; ++column) {
    double of_all = 0;
    for (const CoarseEdge& one : merged) of_all += graph.edge_features[one.edge * columns + column];
    features.push_back(static_cast<float>(of_all / static_cast<double>(merged.size())));
  }
}

}  // namespace

Clusters clusters_of(const NodesAndEdges& graph, const Cell& cell, JoinOrder order) {
  const auto nodes = static_cast<size_t>(graph.nodes());
  Clusters result{.of_nodes = std::vector<int64_t>(nodes, -1), .shifts = std::vector<Shift>(nodes)};
  std::vector<int32_t> joined(nodes, -1);  // the other node of the pair
  for (const Join& join : joins_of(graph, cell, order)) {
    const auto first = static_cast<size_t>(join.first), second = static_cast<size_t>(join.second);
    if (joined[first] >= 0 || joined[second] >= 0) continue;
    joined[first] = join.second;
    joined[second] = join.first;
    result.shifts[second] = join.shift;
  }
  for (size_t node = 0; node < nodes; ++node) {
    if (result.of_nodes[node] >= 0) continue;
    if (joined[node] >= 0) result.of_nodes[static_cast<size_t>(joined[node])] = result.clusters;
    result.of_nodes[node] = result.clusters++;
  }
  return result;
}

NodesAndEdges coarse_graph(const NodesAndEdges& graph, const Cell& cell, const Clusters& clusters) {
  NodesAndEdges coarse{.positions = mean_positions(graph, cell, clusters), .mutual = graph.mutual};
  NeighbourList& list = coarse.edges;
  list.first_edge = {0};
  const OrderByRow members = order_by_row(clusters.of_nodes, clusters.clusters);
  std::vector<CoarseEdge> found;
  for (size_t cluster = 0; cluster + 1 < members.first.size(); ++cluster) {
    const auto first = static_cast<size_t>(members.first[cluster]),
               last = static_cast<size_t>(members.first[cluster + 1]);
    find_edges(graph, clusters, std::span(members.order).subspan(first, last - first), found);
    for (size_t begin = 0, end = 0; begin < found.size(); begin = end) {
      while (end < found.size() && found[end].is_with(found[begin])) ++end;
      list.receivers.push_back(static_cast<int32_t>(cluster));
      list.senders.push_back(static_cast<int32_t>(found[begin].sender));
      list.shifts.push_back(found[begin].shift);
      add_mean_features(graph, std::span(found).subspan(begin, end - begin), coarse.edge_features);
    }
    list.first_edge.push_back(list.edges());
  }
  return coarse;
}

}  // namespace terrace::data
