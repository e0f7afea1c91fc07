// Matches nodes by their edges, and merges edges between clusters.
#include "terrace/data/graphs/coarse_graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

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

// The numbers of edges that nodes receive and send.
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
    if (receiver == sender) continue;
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

// An edge between clusters, and the edge of the finer graph that it comes from.
struct CoarseEdge {
  int32_t receiver = 0, sender = 0;
  Shift shift = {};
  size_t edge = 0;

  auto place() const { return std::tie(receiver, sender, shift); }
};

// Sorted by their places, those of one place by their edges.
std::vector<CoarseEdge> edges_between(const NodesAndEdges& graph, const Clusters& clusters) {
  std::vector<CoarseEdge> between;
  for (size_t edge = 0; edge < graph.edges.receivers.size(); ++edge) {
    const auto receiver = static_cast<size_t>(graph.edges.receivers[edge]),
               sender = static_cast<size_t>(graph.edges.senders[edge]);
    const CoarseEdge one{
        .receiver = static_cast<int32_t>(clusters.of_nodes[receiver]),
        .sender = static_cast<int32_t>(clusters.of_nodes[sender]),
        .shift = sum(sum(graph.edges.shifts[edge], clusters.shifts[receiver]), negative(clusters.shifts[sender])),
        .edge = edge};
    if (one.receiver == one.sender && one.shift == Shift{}) continue;
    between.push_back(one);
  }
  std::ranges::stable_sort(between, [](const CoarseEdge& a, const CoarseEdge& b) { return a.place() < b.place(); });
  return between;
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

// Of the edges that became one.
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
  NodesAndEdges coarse{.positions = mean_positions(graph, cell, clusters)};
  NeighbourList& list = coarse.edges;
  list.first_edge.assign(static_cast<size_t>(clusters.clusters) + 1, 0);
  const std::vector<CoarseEdge> between = edges_between(graph, clusters);
  for (size_t begin = 0, end = 0; begin < between.size(); begin = end) {
    const CoarseEdge& one = between[begin];
    while (end < between.size() && between[end].place() == one.place()) ++end;
    list.receivers.push_back(one.receiver);
    list.senders.push_back(one.sender);
    list.shifts.push_back(one.shift);
    ++list.first_edge[static_cast<size_t>(one.receiver) + 1];
    add_mean_features(graph, std::span(between).subspan(begin, end - begin), coarse.edge_features);
  }
  std::partial_sum(list.first_edge.begin(), list.first_edge.end(), list.first_edge.begin());
  return coarse;
}

}  // namespace terrace::data
