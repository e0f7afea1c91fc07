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
#include "terrace/base/text/plural.h"
#include "terrace/data/graphs/batch_edges.h"
#include "terrace/data/graphs/coarse_graph.h"
#include "terrace/data/graphs/neighbours.h"
#include "terrace/data/graphs/order_by_row.h"
#include "terrace/data/graphs/structures/quantities.h"

namespace terrace::data {
namespace {

constexpr std::array<const char*, 9> edge_tensors = {"receivers",     "senders",    "first_edge",
                                                     "sender_order",  "first_sent", "vectors",
                                                     "edge_features", "pairs",      "first_edges"};

// Returns the order of the edges by receiver, then sender, then the order of the file.
std::vector<size_t> given_order(const GraphToBatch& graph) {
  std::vector<size_t> order(graph.receivers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {},
                           [&](size_t edge) { return std::pair(graph.receivers[edge], graph.senders[edge]); });
  return order;
}

void add_given_edges(const GraphToBatch& graph, NodesAndEdges& result) {
  NeighbourList& list = result.edges;
  list.first_edge.assign(graph.species.size() + 1, 0);
  for (const size_t edge : given_order(graph)) {
    list.receivers.push_back(graph.receivers[edge]);
    list.senders.push_back(graph.senders[edge]);
    list.shifts.emplace_back();
    ++list.first_edge[static_cast<size_t>(graph.receivers[edge]) + 1];
    for (const std::span<const double> values : graph.edge_features) {
      const size_t width = values.size() / graph.receivers.size();
      for (const double value : values.subspan(edge * width, width)) {
        result.edge_features.push_back(static_cast<float>(value));
      }
    }
  }
  std::partial_sum(list.first_edge.begin(), list.first_edge.end(), list.first_edge.begin());
}

// Returns the atoms of a graph with its edges.
NodesAndEdges finest_graph(const GraphToBatch& graph, const GraphsRequest& request) {
  NodesAndEdges result{.positions = {graph.positions.begin(), graph.positions.end()}};
  if (request.given_edges) {
    add_given_edges(graph, result);
  } else {
    result.edges = find_neighbours(graph.positions, graph.cell,
                                   {.cutoff = request.radius, .max_neighbours = request.max_neighbours});
    result.mutual = request.mutual();
  }
  return result;
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
    if (reads_edges()) add_edges();
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

  // Returns the number of values that a label has in all graphs.
  double labelled_values(const std::string& name) const {
    double values = 0;
    for (size_t number = 0; number < request_.labels.size(); ++number) {
      if (request_.labels[number].name != name) continue;
      for (const GraphToBatch& graph : graphs_) {
        if (factor_of(graph, request_.labels[number]) == 0) continue;
        for (const double value : graph.labels[number]) values += std::isnan(value) ? 0 : 1;
      }
    }
    return values;
  }
  int64_t width_of(const std::string& name) const {
    const auto found = std::ranges::find(request_.labels, name, &GraphLabel::name);
    return found == request_.labels.end() ? 1 : found->width;
  }
  // Returns the factor from the values in the data to those of the label; 0 where the graph can have no such label.
  static double factor_of(const GraphToBatch& graph, const GraphLabel& label) {
    return label.is_stress ? stress_in_label(label.property, graph.cell) : 1;
  }

  void count() {
    for (const GraphsRequest::Count& one : request_.counts) {
      if (!one.label.empty()) {
        batch_.counts.push_back(one.times / static_cast<double>(width_of(one.label)) * labelled_values(one.label));
        continue;
      }
      double things = 0;
      for (const GraphToBatch& graph : graphs_) {
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
      const double volume = volume_of(graph.cell);
      volumes.push_back(volume > 0 ? volume : 1);
      charges.push_back(static_cast<float>(graph.charge));
      branches.push_back(graph.branch);
    }
    add("volumes", volumes, {graphs()});
    add("charges", charges, {graphs()});
    add("branches", branches, {graphs()});
    add("degree_means", std::vector<double>(statistics_.degree_means.begin(), statistics_.degree_means.end()), {2});
  }

  // Returns whether edges are read. Where nodes are clustered they always are: the clusters count among a batch's
  // sizes.
  bool reads_edges() const {
    return request_.coarse_levels > 0 ||
           std::ranges::any_of(edge_tensors, [&](const char* name) { return names_.contains(name); });
  }

  bool reads_pairs(int64_t level) const {
    return request_.mutual() &&
           (names_.contains(level_tensor(level, "pairs")) || names_.contains(level_tensor(level, "first_edges")));
  }

  void add_edges() {
    BatchEdges edges;
    std::vector<BatchLevel> levels(static_cast<size_t>(request_.coarse_levels));
    for (const GraphToBatch& graph : graphs_) {
      NodesAndEdges own = finest_graph(graph, request_);
      edges.add(own, graph.cell, reads_pairs(0));
      for (size_t level = 0; level < levels.size(); ++level) own = add_level(graph, own, level, levels[level]);
    }
    batch_.sizes["edges"] = edges.edges();
    add_edge_tensors(0, edges);
    for (size_t level = 0; level < levels.size(); ++level) {
      add_level_tensors(static_cast<int64_t>(level) + 1, levels[level]);
    }
  }

  // Clusters the graph's nodes of the level below, and returns those of this one.
  NodesAndEdges add_level(const GraphToBatch& graph, const NodesAndEdges& finer, size_t level, BatchLevel& all) const {
    const Clusters clusters =
        clusters_of(finer, graph.cell, request_.given_edges ? JoinOrder::degree : JoinOrder::length);
    NodesAndEdges coarse = coarse_graph(finer, graph.cell, clusters);
    for (const int64_t cluster : clusters.of_nodes) all.clusters.push_back(all.first_node.back() + cluster);
    all.edges.add(coarse, graph.cell, reads_pairs(static_cast<int64_t>(level) + 1));
    all.graphs.resize(static_cast<size_t>(all.edges.nodes()), std::ssize(all.first_node) - 1);
    all.first_node.push_back(all.edges.nodes());
    return coarse;
  }

  void add_edge_tensors(int64_t level, const BatchEdges& edges) {
    const auto name = [&](const char* of_atoms) { return level_tensor(level, of_atoms); };
    const int64_t count = edges.edges();
    if (names_.contains(name("sender_order")) || names_.contains(name("first_sent"))) {
      const OrderByRow sent = order_by_row(edges.senders, edges.nodes());
      add(name("sender_order"), sent.order, {count});
      add(name("first_sent"), sent.first, {edges.nodes() + 1});
    }
    add(name("receivers"), edges.receivers, {count});
    add(name("senders"), edges.senders, {count});
    add(name("first_edge"), edges.first_edge, {edges.nodes() + 1});
    add(name("vectors"), edges.vectors, {count, 3});
    if (reads_pairs(level)) {
      add(name("pairs"), edges.pairs, {count});
      add(name("first_edges"), edges.first_edges, {count / 2});
    }
    add(name("edge_features"), edges.features, {count, widths_.edges});
  }

  void add_level_tensors(int64_t number, const BatchLevel& level) {
    const auto name = [&](const char* of_atoms) { return level_tensor(number, of_atoms); };
    batch_.sizes[name("atoms")] = level.edges.nodes();
    batch_.sizes[name("edges")] = level.edges.edges();
    add_edge_tensors(number, level.edges);
    add(name("graphs"), level.graphs, {level.edges.nodes()});
    add(name("first_atom"), level.first_node, {graphs() + 1});
    add(name("clusters"), level.clusters, {std::ssize(level.clusters)});
    if (!names_.contains(name("members")) && !names_.contains(name("first_member"))) return;
    const OrderByRow members = order_by_row(level.clusters, level.edges.nodes());
    add(name("members"), members.order, {std::ssize(members.order)});
    add(name("first_member"), members.first, {level.edges.nodes() + 1});
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
      const double factor = factor_of(graph, label);
      for (size_t i = 0; i < of_graph.size(); ++i) {
        const bool is_there = !values.empty() && factor != 0 && !std::isnan(values[i]);
        labelled.push_back(is_there ? 1.0F : 0.0F);
        targets.push_back(is_there ? (factor * values[i] - of_graph[i]) / statistics.scale : 0);
      }
      offsets.insert(offsets.end(), of_graph.begin(), of_graph.end());
    }
    const int64_t rows = label.level == GraphLevel::structure ? graphs() : atoms();
    add("targets." + label.name, targets, {rows, label.width});
    add("offsets." + label.name, offsets, {rows, label.width});
    add("scales." + label.name, std::vector<double>{statistics.scale}, {1});
    add("labelled." + label.name, labelled, {rows, label.width});
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
  const bool has_values = found != properties.end() &&
                          std::ranges::none_of(found->second.values, [](double value) { return std::isnan(value); });
  if (has_values) return found->second;
  throw UserError::of("structure {} has no {} of {}, or not all of it, which the model reads", place + 1, name,
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
