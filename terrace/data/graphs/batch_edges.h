// The edges of a batch of graphs, at the finest level or a coarse one, as the tensors of graphs_request.h.
#pragma once

#include <cstdint>
#include <vector>

#include "terrace/data/graphs/coarse_graph.h"
#include "terrace/data/graphs/structures/cell.h"

namespace terrace::data {

struct BatchEdges {
  std::vector<int64_t> receivers = {}, senders = {}, first_edge = {0};
  std::vector<double> vectors = {};
  std::vector<float> features = {};
  std::vector<int64_t> pairs = {}, first_edges = {};  // only of graphs that were added with pairs

  int64_t nodes() const { return std::ssize(first_edge) - 1; }
  int64_t edges() const { return std::ssize(receivers); }
  // Adds a graph behind those that are there. `with_pairs` says that each of its edges has one back.
  void add(const NodesAndEdges& graph, const Cell& cell, bool with_pairs);
};

// A coarse level of a batch: the clusters of the nodes of the level below, which is one level finer.
struct BatchLevel {
  std::vector<int64_t> graphs = {};       // [nodes]
  std::vector<int64_t> first_node = {0};  // [graphs + 1]
  std::vector<int64_t> clusters = {};     // [nodes of the finer level]
  BatchEdges edges = {};
};

}  // namespace terrace::data
