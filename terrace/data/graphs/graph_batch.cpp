// Concatenates graphs, finds their neighbours and normalises their labels.
#include "terrace/data/graphs/graph_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/plural.h"
#include "terrace/data/graphs/neighbours.h"

namespace terrace::data {
namespace {

constexpr std::array<const char*, 9> edge_tensors = {"receivers",     "senders",    "first_edge",
                                                     "sender_order",  "first_sent", "vectors",
                                                     "edge_features", "pairs",      "first_edges"};

// The edges of a batch.
struct BatchEdges {
  std::vector<int64_t> receivers = {}, senders = {}, first_edge = {0};
  std::vector<double> vectors = {};
  std::vector<float> features = {};
  std::vector<int64_t> pairs = {}, first_edges = {};  // of neighbours without a cap
};

// Edges by receiver, then sender, then the order of the file.
std::vector<size_t> given_order(const GraphToBatch& graph) {
  std::vector<size_t> order(graph.receivers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {},
                           [&](size_t edge) { return std::pair(graph.receivers[edge], graph.senders[edge]); });
  return order;
}

void add_edge(const GraphToBatch& graph, int64_t first_atom, int32_t receiver, int32_t sender,
              const std::array<int32_t, 3>& shift, BatchEdges& edges) {
  edges.receivers.push_back(first_atom + receiver);
  edges.senders.push_back(first_atom + sender);
  for (size_t axis = 0; axis < 3; ++axis) {
    double moved = 0;
    for (size_t k = 0; k < 3; ++k) {
      if (graph.cell.periodic[k]) moved += shift[k] * graph.cell.vectors[k][axis];
    }
    edges.vectors.push_back(graph.positions[3 * static_cast<size_t>(sender) + axis] -
                            graph.positions[3 * static_cast<size_t>(receiver) + axis] + moved);
  }
}

void add_given_edges(const GraphToBatch& graph, int64_t first_atom, BatchEdges& edges) {
  std::vector<int64_t> degrees(graph.species.size());
  for (const size_t edge : given_order(graph)) {
    add_edge(graph, first_atom, graph.receivers[edge], graph.senders[edge], {}, edges);
    ++degrees[static_cast<size_t>(graph.receivers[edge])];
    for (const std::span<const double> values : graph.edge_features) {
      const size_t width = values.size() / graph.receivers.size();
      for (const double value : values.subspan(edge * width, width))
        edges.features.push_back(static_cast<float>(value));
    }
  }
  for (const int64_t degree : degrees) edges.first_edge.push_back(edges.first_edge.back() + degree);
}

void add_pairs(const NeighbourList& list, int64_t edges_before, BatchEdges& edges) {
  const MutualPairs own = mutual_pairs(list);
  const int64_t pairs_before = std::ssize(edges.first_edges);
  for (const int64_t pair : own.pairs) edges.pairs.push_back(pairs_before + pair);
  for (const int64_t edge : own.first_edges) edges.first_edges.push_back(edges_before + edge);
}

void add_neighbours(const GraphToBatch& graph, const NeighbourOptions& options, bool with_pairs, int64_t first_atom,
                    BatchEdges& edges) {
  const NeighbourList list = find_neighbours(graph.positions, graph.cell, options);
  const int64_t before = edges.first_edge.back();
  if (with_pairs) add_pairs(list, before, edges);
  for (size_t edge = 0; edge < list.receivers.size(); ++edge) {
    add_edge(graph, first_atom, list.receivers[edge], list.senders[edge], list.shifts[edge], edges);
  }
  for (size_t atom = 1; atom < list.first_edge.size(); ++atom)
    edges.first_edge.push_back(before + list.first_edge[atom]);
}

class GraphBatch {
 public:
  GraphBatch(const GraphsRequest& request, const GraphsStatistics& statistics, const FeatureWidths& widths,
             std::span<const GraphToBatch> graphs, const TensorNames& names)
      : request_(request), statistics_(statistics), widths_(widths), graphs_(graphs), names_(names) {
    for (const GraphToBatch& graph : graphs) first_atom_.push_back(first_atom_.back() + std::ssize(graph.species));
  }

  MicroBatch batch(std::vector<int64_t> numbers, int64_t edges) {
    batch_.samples = std::move(numbers);
    batch_.sizes = {{"atoms", first_atom_.back()}, {"edges", edges}};
    count();
    add_atoms();
    add_graphs();
    if (std::ranges::any_of(edge_tensors, [&](const char* name) { return names_.contains(name); })) add_edges();
    for (size_t label = 0; label < request_.labels.size(); ++label) add_label(label);
    return std::move(batch_);
  }

 private:
  template <typename Number>
  void add(const std::string& name, const std::vector<Number>& values, std::vector<int64_t> sizes) {
    if (!names_.contains(name)) return;
    batch_.tensors[name] = HostTensor::of(std::span<const Number>(values), std::move(sizes));
  }
  int64_t graphs() const { return std::ssize(graphs_); }
  int64_t atoms() const { return first_atom_.back(); }

  bool has_label(const GraphToBatch& graph, const std::string& name) const {
    for (size_t label = 0; label < request_.labels.size(); ++label) {
      if (request_.labels[label].name == name) return !graph.labels[label].empty();
    }
    return false;
  }

  void count() {
    for (const GraphsRequest::Count& one : request_.counts) {
      double things = 0;
      for (const GraphToBatch& graph : graphs_) {
        if (!one.label.empty() && !has_label(graph, one.label)) continue;
        things += one.level == GraphLevel::structure ? 1 : static_cast<double>(graph.species.size());
      }
      batch_.counts.push_back(one.times * things);
    }
  }

  void add_atoms() {
    std::vector<int64_t> species, owners;
    for (size_t number = 0; number < graphs_.size(); ++number) {
      species.insert(species.end(), graphs_[number].species.begin(), graphs_[number].species.end());
      owners.resize(species.size(), static_cast<int64_t>(number));
    }
    add("species", species, {atoms()});
    add("graphs", owners, {atoms()});
    add("first_atom", first_atom_, {graphs() + 1});
    if (!names_.contains("atom_features")) return;
    std::vector<float> features;
    for (const GraphToBatch& graph : graphs_) {
      for (size_t atom = 0; atom < graph.species.size(); ++atom) {
        for (const std::span<const double> values : graph.atom_features) {
          const size_t width = values.size() / graph.species.size();
          for (const double value : values.subspan(atom * width, width)) features.push_back(static_cast<float>(value));
        }
      }
    }
    add("atom_features", features, {atoms(), widths_.atoms});
  }

  void add_graphs() {
    std::vector<double> volumes;
    std::vector<float> charges;
    std::vector<int64_t> branches;
    for (const GraphToBatch& graph : graphs_) {
      volumes.push_back(volume_of(graph.cell));
      charges.push_back(static_cast<float>(graph.charge));
      branches.push_back(graph.branch);
    }
    add("volumes", volumes, {graphs()});
    add("charges", charges, {graphs()});
    add("branches", branches, {graphs()});
    add("degree_means", std::vector<double>(statistics_.degree_means.begin(), statistics_.degree_means.end()), {2});
  }

  void add_edges() {
    BatchEdges edges;
    const NeighbourOptions options{.cutoff = request_.radius, .max_neighbours = request_.max_neighbours};
    const bool with_pairs = request_.mutual() && (names_.contains("pairs") || names_.contains("first_edges"));
    for (size_t number = 0; number < graphs_.size(); ++number) {
      if (request_.given_edges) {
        add_given_edges(graphs_[number], first_atom_[number], edges);
      } else {
        add_neighbours(graphs_[number], options, with_pairs, first_atom_[number], edges);
      }
    }
    const int64_t count = std::ssize(edges.receivers);
    batch_.sizes["edges"] = count;
    add_sender_order(edges.senders);
    add("receivers", edges.receivers, {count});
    add("senders", edges.senders, {count});
    add("first_edge", edges.first_edge, {atoms() + 1});
    add("vectors", edges.vectors, {count, 3});
    if (with_pairs) {
      add("pairs", edges.pairs, {count});
      add("first_edges", edges.first_edges, {count / 2});
    }
    add("edge_features", edges.features, {count, widths_.edges});
  }

  // By counting, which keeps the order of edges of one sender.
  void add_sender_order(const std::vector<int64_t>& senders) {
    if (!names_.contains("sender_order") && !names_.contains("first_sent")) return;
    std::vector<int64_t> first(static_cast<size_t>(atoms()) + 1);
    for (const int64_t sender : senders) ++first[static_cast<size_t>(sender) + 1];
    std::partial_sum(first.begin(), first.end(), first.begin());
    std::vector<int64_t> next = first, order(senders.size());
    for (size_t edge = 0; edge < senders.size(); ++edge) {
      order[static_cast<size_t>(next[static_cast<size_t>(senders[edge])]++)] = static_cast<int64_t>(edge);
    }
    add("sender_order", order, {std::ssize(order)});
    add("first_sent", first, {atoms() + 1});
  }

  void add_label(size_t number) {
    const GraphLabel& label = request_.labels[number];
    const LabelStatistics& statistics = statistics_.labels.at(label.name);
    std::vector<double> targets, offsets;
    std::vector<float> labelled;
    for (const GraphToBatch& graph : graphs_) {
      const std::vector<double> of_graph =
          statistics.offsets_of(graph.dataset, label.level, label.width, graph.species);
      const std::span<const double> values = graph.labels[number];
      labelled.push_back(values.empty() ? 0.0F : 1.0F);
      for (size_t i = 0; i < of_graph.size(); ++i) {
        targets.push_back(values.empty() ? 0 : (values[i] - of_graph[i]) / statistics.scale);
      }
      offsets.insert(offsets.end(), of_graph.begin(), of_graph.end());
    }
    const int64_t rows = label.level == GraphLevel::structure ? graphs() : atoms();
    add("targets." + label.name, targets, {rows, label.width});
    add("offsets." + label.name, offsets, {rows, label.width});
    add("scales." + label.name, std::vector<double>{statistics.scale}, {1});
    add("labelled." + label.name, labelled, {graphs()});
  }

  const GraphsRequest& request_;
  const GraphsStatistics& statistics_;
  const FeatureWidths& widths_;
  std::span<const GraphToBatch> graphs_;
  const TensorNames& names_;
  std::vector<int64_t> first_atom_ = {0};
  MicroBatch batch_;
};

const PropertyValues& property_of_structure(const Properties& properties, const std::string& name, GraphLevel level,
                                            size_t place) {
  const auto found = properties.find(name);
  if (found != properties.end()) return found->second;
  throw UserError::of("structure {} has no {} of {}, which the model reads", place + 1, name,
                      plural(2, std::string(word_of(level))));
}

GraphToBatch graph_of(const Structure& structure, const GraphsRequest& request, size_t place) {
  GraphToBatch graph{.species = structure.species, .positions = structure.positions, .cell = structure.cell};
  if (request.given_edges) {
    if (!structure.has_edges) throw UserError::of("structure {} gives no edges, which the model reads", place + 1);
    graph.receivers = structure.edges.receivers;
    graph.senders = structure.edges.senders;
  }
  for (const std::string& name : request.atom_features) {
    graph.atom_features.push_back(property_of_structure(structure.of_atoms, name, GraphLevel::atom, place).values);
  }
  for (const std::string& name : request.edge_features) {
    graph.edge_features.push_back(property_of_structure(structure.of_edges, name, GraphLevel::edge, place).values);
  }
  if (!request.charge.empty()) {
    graph.charge =
        property_of_structure(structure.of_structure, request.charge, GraphLevel::structure, place).values.at(0);
  }
  for (const GraphLabel& label : request.labels) {
    const Properties& of_level = label.level == GraphLevel::structure ? structure.of_structure : structure.of_atoms;
    const auto found = of_level.find(label.property);
    const bool is_labelled = found != of_level.end() && found->second.width == label.width;
    graph.labels.push_back(is_labelled ? std::span<const double>(found->second.values) : std::span<const double>());
  }
  return graph;
}

FeatureWidths widths_of(const Structure& structure, const GraphsRequest& request) {
  FeatureWidths widths;
  for (const std::string& name : request.atom_features) widths.atoms += structure.of_atoms.at(name).width;
  for (const std::string& name : request.edge_features) widths.edges += structure.of_edges.at(name).width;
  return widths;
}

}  // namespace

MicroBatch graph_batch(const GraphsRequest& request, const GraphsStatistics& statistics, const FeatureWidths& widths,
                       std::span<const GraphToBatch> graphs, std::vector<int64_t> numbers, int64_t edges,
                       const TensorNames& names) {
  return GraphBatch(request, statistics, widths, graphs, names).batch(std::move(numbers), edges);
}

MicroBatch batch_of(std::span<const Structure> structures, int64_t branch, size_t dataset, const GraphsRequest& request,
                    const GraphsStatistics& statistics, const TensorNames& names) {
  std::vector<GraphToBatch> graphs;
  FeatureWidths widths;
  for (size_t place = 0; place < structures.size(); ++place) {
    graphs.push_back(graph_of(structures[place], request, place));
    graphs.back().branch = branch;
    graphs.back().dataset = dataset;
    const FeatureWidths own = widths_of(structures[place], request);
    if (place == 0) widths = own;
    if (own.atoms == widths.atoms && own.edges == widths.edges) continue;
    throw UserError::of(
        "structure {} has {} columns of features of its atoms and {} of its edges, and the first {} and {}", place + 1,
        own.atoms, own.edges, widths.atoms, widths.edges);
  }
  std::vector<int64_t> numbers(structures.size());
  std::iota(numbers.begin(), numbers.end(), int64_t{0});
  int64_t edges = 0;
  for (const Structure& structure : structures) edges += std::ssize(structure.edges.receivers);
  return graph_batch(request, statistics, widths, graphs, std::move(numbers), edges, names);
}

}  // namespace terrace::data
