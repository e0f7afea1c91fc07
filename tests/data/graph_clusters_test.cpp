// Looks at the clusters of small graphs that were worked out by hand, at what must hold of those of random ones, and at
// the levels of batches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "terrace/data/graphs/coarse_graph.h"
#include "terrace/data/graphs/graph_batch.h"

namespace terrace::data {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

// A graph with an edge in both directions between the nodes of each pair, whose feature is `feature` of the pair.
NodesAndEdges graph_of_pairs(int64_t nodes, std::vector<std::pair<int32_t, int32_t>> pairs,
                             const std::vector<float>& features = {}) {
  std::vector<std::tuple<int32_t, int32_t, float>> edges;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const float feature = features.empty() ? 0 : features[i];
    edges.emplace_back(pairs[i].first, pairs[i].second, feature);
    edges.emplace_back(pairs[i].second, pairs[i].first, feature);
  }
  std::ranges::sort(edges);
  NodesAndEdges graph{.positions = std::vector<double>(3 * static_cast<size_t>(nodes))};
  graph.edges.first_edge.assign(static_cast<size_t>(nodes) + 1, 0);
  for (const auto& [receiver, sender, feature] : edges) {
    graph.edges.receivers.push_back(receiver);
    graph.edges.senders.push_back(sender);
    graph.edges.shifts.emplace_back();
    graph.edge_features.push_back(feature);
    ++graph.edges.first_edge[static_cast<size_t>(receiver) + 1];
  }
  std::partial_sum(graph.edges.first_edge.begin(), graph.edges.first_edge.end(), graph.edges.first_edge.begin());
  return graph;
}

NodesAndEdges graph_within(const std::vector<double>& positions, const Cell& cell, double radius) {
  return {.positions = positions, .edges = find_neighbours(positions, cell, {.cutoff = radius}), .mutual = true};
}

Vector3 vector_of(const NodesAndEdges& graph, const Cell& cell, size_t edge) {
  Vector3 vector = image_offset(graph.edges.shifts[edge], cell);
  for (size_t axis = 0; axis < 3; ++axis) {
    vector[axis] += graph.positions[3 * static_cast<size_t>(graph.edges.senders[edge]) + axis] -
                    graph.positions[3 * static_cast<size_t>(graph.edges.receivers[edge]) + axis];
  }
  return vector;
}

// Ends have the smallest degrees, so they are joined first.
TEST(Clusters, OfPathsBeginAtTheirEnds) {
  EXPECT_THAT(clusters_of(graph_of_pairs(4, {{0, 1}, {1, 2}, {2, 3}}), {}, JoinOrder::degree).of_nodes,
              ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(clusters_of(graph_of_pairs(5, {{0, 1}, {1, 2}, {2, 3}, {3, 4}}), {}, JoinOrder::degree).of_nodes,
              ElementsAre(0, 0, 1, 2, 2));
  // Numbered so that the order of the nodes would join 0 and 1, in the middle.
  EXPECT_THAT(clusters_of(graph_of_pairs(4, {{2, 0}, {0, 1}, {1, 3}}), {}, JoinOrder::degree).of_nodes,
              ElementsAre(0, 1, 0, 1));
}

TEST(Clusters, OfAStarAreOnePairAndSingleNodes) {
  const NodesAndEdges star = graph_of_pairs(5, {{2, 0}, {2, 1}, {2, 3}, {2, 4}}, {1, 2, 3, 4});
  const Clusters clusters = clusters_of(star, {}, JoinOrder::degree);
  EXPECT_EQ(clusters.clusters, 4);
  EXPECT_THAT(clusters.of_nodes, ElementsAre(0, 1, 0, 2, 3));
  const NodesAndEdges coarse = coarse_graph(star, {}, clusters);
  EXPECT_THAT(coarse.edges.receivers, ElementsAre(0, 0, 0, 1, 2, 3));
  EXPECT_THAT(coarse.edges.senders, ElementsAre(1, 2, 3, 0, 0, 0));
  EXPECT_THAT(coarse.edges.first_edge, ElementsAre(0, 3, 4, 5, 6));
  EXPECT_THAT(coarse.edge_features, ElementsAre(2, 3, 4, 2, 3, 4));
}

// A square: both edges between its two halves become one, with the mean of their features.
TEST(Clusters, MergeEdgesBetweenTheSameClusters) {
  const NodesAndEdges square = graph_of_pairs(4, {{0, 1}, {1, 2}, {2, 3}, {3, 0}}, {9, 1, 9, 2});
  const Clusters clusters = clusters_of(square, {}, JoinOrder::degree);
  EXPECT_THAT(clusters.of_nodes, ElementsAre(0, 0, 1, 1));
  const NodesAndEdges coarse = coarse_graph(square, {}, clusters);
  EXPECT_THAT(coarse.edges.receivers, ElementsAre(0, 1));
  EXPECT_THAT(coarse.edges.senders, ElementsAre(1, 0));
  EXPECT_THAT(coarse.edge_features, ElementsAre(1.5, 1.5));
}

TEST(Clusters, LeaveNodesWithoutEdgesAndSeparateGraphsApart) {
  const NodesAndEdges parts = graph_of_pairs(6, {{0, 4}, {1, 3}});
  const Clusters clusters = clusters_of(parts, {}, JoinOrder::degree);
  EXPECT_THAT(clusters.of_nodes, ElementsAre(0, 1, 2, 1, 0, 3));
  const NodesAndEdges coarse = coarse_graph(parts, {}, clusters);
  EXPECT_THAT(coarse.edges.receivers, ElementsAre());
  EXPECT_EQ(coarse.nodes(), 4);
  EXPECT_THAT(clusters_of({.edges = {.first_edge = {0}}}, {}, JoinOrder::length).of_nodes, ElementsAre());
  EXPECT_THAT(coarse_graph({.edges = {.first_edge = {0}}}, {}, {}).edges.first_edge, ElementsAre(0));
}

// The given edges of a file may go in one direction, be there twice, and lead from a node to itself.
TEST(Clusters, TakeEdgesInOneDirectionTwiceAndToTheirOwnNode) {
  NodesAndEdges graph{.positions = std::vector<double>(9),
                      .edges = {.receivers = {0, 0, 0, 2},
                                .senders = {0, 1, 1, 1},
                                .shifts = std::vector<std::array<int32_t, 3>>(4),
                                .first_edge = {0, 3, 3, 4}},
                      .edge_features = {1, 2, 3, 4}};
  const Clusters clusters = clusters_of(graph, {}, JoinOrder::degree);
  EXPECT_THAT(clusters.of_nodes, ElementsAre(0, 1, 1));  // 2 has one edge, 1 has three, 0 has four
  const NodesAndEdges coarse = coarse_graph(graph, {}, clusters);
  EXPECT_THAT(coarse.edges.receivers, ElementsAre(0));
  EXPECT_THAT(coarse.edges.senders, ElementsAre(1));
  EXPECT_THAT(coarse.edge_features, ElementsAre(2.5));
}

TEST(Clusters, JoinTheNearestAtomsFirst) {
  const NodesAndEdges chain = graph_within({0, 0, 0, 1, 0, 0, 1.9, 0, 0, 3, 0, 0}, {}, 1.5);
  const Clusters clusters = clusters_of(chain, {}, JoinOrder::length);
  EXPECT_THAT(clusters.of_nodes, ElementsAre(0, 1, 1, 2));
  const NodesAndEdges coarse = coarse_graph(chain, {}, clusters);
  EXPECT_THAT(coarse.positions, ElementsAre(0, 0, 0, 1.45, 0, 0, 3, 0, 0));
  EXPECT_THAT(coarse.edges.receivers, ElementsAre(0, 1, 1, 2));
}

// Atoms at 0.5 and 3.5 of a cell of 4 are 1 apart across its border and 3 apart inside. The pair lies about 0, and the
// longer edge leads from it to its own image.
TEST(Clusters, JoinTheNearestImages) {
  const Cell cell{.vectors = {{{4, 0, 0}, {0, 0, 0}, {0, 0, 0}}}, .periodic = {true, false, false}};
  const NodesAndEdges two = graph_within({0.5, 0, 0, 3.5, 0, 0}, cell, 3.2);
  ASSERT_EQ(two.edges.edges(), 4);
  const Clusters clusters = clusters_of(two, cell, JoinOrder::length);
  EXPECT_THAT(clusters.of_nodes, ElementsAre(0, 0));
  EXPECT_THAT(clusters.shifts, ElementsAre(ElementsAre(0, 0, 0), ElementsAre(-1, 0, 0)));
  const NodesAndEdges coarse = coarse_graph(two, cell, clusters);
  EXPECT_THAT(coarse.positions, ElementsAre(0, 0, 0));
  EXPECT_THAT(coarse.edges.senders, ElementsAre(0, 0));
  EXPECT_THAT(coarse.edges.shifts, ElementsAre(ElementsAre(-1, 0, 0), ElementsAre(1, 0, 0)));
  // Images of one atom are never joined.
  EXPECT_THAT(clusters_of(coarse, cell, JoinOrder::length).of_nodes, ElementsAre(0));
  EXPECT_EQ(coarse_graph(coarse, cell, clusters_of(coarse, cell, JoinOrder::length)).edges, coarse.edges);
}

struct RandomCell {
  std::vector<double> positions = {};
  Cell cell = {};
};

RandomCell random_cell(unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(0, 5);
  RandomCell random{.cell = {.vectors = {{{5, 0, 0}, {0.7, 4.5, 0}, {-0.4, 1.1, 5.2}}},
                             .periodic = {seed % 2 == 0, seed % 3 == 0, true}}};
  for (int64_t i = 0; i < 3 * 17; ++i) random.positions.push_back(uniform(generator));
  return random;
}

// Every edge has a node that a no longer edge joined, else it would have joined its own.
TEST(Clusters, LeaveNoShorterEdgeOut) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    const RandomCell random = random_cell(seed);
    const NodesAndEdges graph = graph_within(random.positions, random.cell, 2.5);
    const Clusters clusters = clusters_of(graph, random.cell, JoinOrder::length);
    NodesAndEdges perhaps_mutual = graph;
    perhaps_mutual.mutual = false;
    EXPECT_EQ(clusters_of(perhaps_mutual, random.cell, JoinOrder::length), clusters);
    std::vector<double> lengths(17, INFINITY);  // of the edge that joined each node
    const auto lead = [&](size_t edge) { return length(vector_of(graph, random.cell, edge)); };
    for (size_t edge = 0; edge < graph.edges.receivers.size(); ++edge) {
      const auto i = static_cast<size_t>(graph.edges.receivers[edge]),
                 j = static_cast<size_t>(graph.edges.senders[edge]);
      if (i == j || clusters.of_nodes[i] != clusters.of_nodes[j]) continue;
      std::array<int32_t, 3> between = clusters.shifts[j];
      for (size_t k = 0; k < 3; ++k) between[k] -= clusters.shifts[i][k];
      if (graph.edges.shifts[edge] == between) lengths[i] = lengths[j] = lead(edge);
    }
    int64_t joined_nodes = 0;
    for (const double one : lengths) joined_nodes += std::isfinite(one) ? 1 : 0;
    EXPECT_EQ(clusters.clusters, 17 - joined_nodes / 2);
    for (size_t edge = 0; edge < graph.edges.receivers.size(); ++edge) {
      const auto i = static_cast<size_t>(graph.edges.receivers[edge]),
                 j = static_cast<size_t>(graph.edges.senders[edge]);
      if (i == j) continue;
      EXPECT_LE(std::min(lengths[i], lengths[j]), lead(edge) + 1e-6);
    }
  }
}

// Edges of a coarse graph are what they are made of, but for how far nodes lie from the means of their clusters.
TEST(Clusters, HaveMutualEdgesBetweenTheirMeans) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    const RandomCell random = random_cell(seed);
    const Cell& cell = random.cell;
    NodesAndEdges graph = graph_within(random.positions, cell, 2.5);
    double longest = 2.5;
    for (int level = 1; level < 5; ++level) {
      const Clusters clusters = clusters_of(graph, cell, JoinOrder::length);
      const NodesAndEdges coarse = coarse_graph(graph, cell, clusters);
      EXPECT_EQ(2 * std::ssize(mutual_pairs(coarse.edges).first_edges), coarse.edges.edges());
      longest *= 2;
      std::map<std::tuple<int64_t, int64_t, std::array<int32_t, 3>>, Vector3> vectors;
      for (size_t edge = 0; edge < coarse.edges.receivers.size(); ++edge) {
        const std::tuple place(coarse.edges.receivers[edge], coarse.edges.senders[edge], coarse.edges.shifts[edge]);
        const Vector3 vector = vector_of(coarse, cell, edge);
        EXPECT_LT(length(vector), longest);
        EXPECT_TRUE(vectors.emplace(place, vector).second);
      }
      const auto from_mean = [&](size_t node) {
        Vector3 offset = image_offset(clusters.shifts[node], cell);
        for (size_t axis = 0; axis < 3; ++axis) {
          offset[axis] += graph.positions[3 * node + axis] -
                          coarse.positions[3 * static_cast<size_t>(clusters.of_nodes[node]) + axis];
        }
        return offset;
      };
      size_t leaving = 0;
      for (size_t edge = 0; edge < graph.edges.receivers.size(); ++edge) {
        const auto i = static_cast<size_t>(graph.edges.receivers[edge]),
                   j = static_cast<size_t>(graph.edges.senders[edge]);
        std::array<int32_t, 3> shift = graph.edges.shifts[edge];
        for (size_t k = 0; k < 3; ++k) shift[k] += clusters.shifts[i][k] - clusters.shifts[j][k];
        const auto found = vectors.find({clusters.of_nodes[i], clusters.of_nodes[j], shift});
        if (found == vectors.end()) {
          EXPECT_EQ(clusters.of_nodes[i], clusters.of_nodes[j]);
          continue;
        }
        ++leaving;
        const Vector3 vector = vector_of(graph, cell, edge), of_i = from_mean(i), of_j = from_mean(j);
        for (size_t axis = 0; axis < 3; ++axis) {
          EXPECT_NEAR(found->second[axis], vector[axis] + of_i[axis] - of_j[axis], 1e-12);
        }
      }
      EXPECT_GE(leaving, vectors.size());
      graph = coarse;
    }
  }
}

TEST(Clusters, DoNotDependOnTheOrderOfAtoms) {
  const RandomCell random = random_cell(0);
  std::vector<size_t> order(17);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::shuffle(order, std::mt19937(3));
  std::vector<double> positions;
  for (const size_t atom : order) {
    for (size_t axis = 0; axis < 3; ++axis) positions.push_back(random.positions[3 * atom + axis]);
  }
  const auto of = [&](const std::vector<double>& places) {
    return clusters_of(graph_within(places, random.cell, 2.5), random.cell, JoinOrder::length).of_nodes;
  };
  const std::vector<int64_t> before = of(random.positions), after = of(positions);
  for (size_t i = 0; i < 17; ++i) {
    for (size_t j = 0; j < 17; ++j) {
      EXPECT_EQ(after[i] == after[j], before[order[i]] == before[order[j]]);
    }
  }
}

template <typename Number>
std::vector<Number> values_of(const MicroBatch& batch, const std::string& name) {
  const HostTensor& tensor = batch.tensors.at(name);
  std::vector<Number> values(tensor.bytes.size() / sizeof(Number));
  if (!values.empty()) std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

Structure structure_in_cell(unsigned seed) {
  const RandomCell random = random_cell(seed);
  const size_t atoms = seed == 4 ? 1 : 17 - seed;
  Structure structure{.species = std::vector<uint8_t>(atoms, 6), .cell = random.cell};
  structure.positions.assign(random.positions.begin(), random.positions.begin() + static_cast<ptrdiff_t>(3 * atoms));
  return structure;
}

TensorNames names_at(int64_t level) {
  TensorNames names;
  for (const char* name : {"graphs", "first_atom", "receivers", "senders", "first_edge", "sender_order", "first_sent",
                           "vectors", "pairs", "first_edges", "clusters", "members", "first_member"}) {
    names.insert(level_tensor(level, name));
  }
  return names;
}

// Each tensor of a batch is that of its graphs alone, one after another, with the numbers of nodes and edges before.
TEST(CoarseLevels, OfABatchAreThoseOfItsGraphsAlone) {
  const GraphsRequest request{.radius = 2.5, .coarse_levels = 3};
  std::vector<Structure> structures;
  for (const unsigned seed : {0U, 4U, 2U, 3U}) structures.push_back(structure_in_cell(seed));
  for (int64_t level = 1; level <= 3; ++level) {
    const TensorNames names = names_at(level);
    const MicroBatch batch = batch_of(structures, 0, 0, request, {}, names);
    ASSERT_EQ(batch.tensors.size(), names.size());
    const auto name = [&](const char* of_atoms) { return level_tensor(level, of_atoms); };
    std::map<std::string, std::vector<int64_t>> joined_up;
    std::vector<double> vectors;
    int64_t nodes = 0, finer = 0, edges = 0, graphs = 0;
    for (const Structure& structure : structures) {
      const MicroBatch alone = batch_of({&structure, 1}, 0, 0, request, {}, names);
      const std::map<std::string, int64_t> before = {
          {"graphs", graphs},     {"first_atom", nodes},   {"receivers", nodes},  {"senders", nodes},
          {"first_edge", edges},  {"sender_order", edges}, {"first_sent", edges}, {"pairs", edges / 2},
          {"first_edges", edges}, {"clusters", nodes},     {"members", finer},    {"first_member", finer}};
      for (const auto& [tensor, start] : before) {
        std::vector<int64_t>& all = joined_up[tensor];
        if (tensor.starts_with("first_") && tensor != "first_edges" && !all.empty()) all.pop_back();
        // "sender_order" and "members" are sorted by nodes, those of a graph together.
        for (const int64_t value : values_of<int64_t>(alone, name(tensor.c_str()))) all.push_back(start + value);
      }
      const auto own = values_of<double>(alone, name("vectors"));
      vectors.insert(vectors.end(), own.begin(), own.end());
      nodes += alone.sizes.at(name("atoms"));
      edges += alone.sizes.at(name("edges"));
      finer += std::ssize(values_of<int64_t>(alone, name("clusters")));
      ++graphs;
    }
    for (const auto& [tensor, values] : joined_up) {
      EXPECT_THAT(values_of<int64_t>(batch, name(tensor.c_str())), ElementsAreArray(values)) << tensor;
    }
    EXPECT_EQ(values_of<double>(batch, name("vectors")), vectors);
    EXPECT_EQ(batch.sizes.at(name("atoms")), nodes);
    EXPECT_EQ(batch.sizes.at(name("edges")), edges);
    EXPECT_LT(nodes, finer);
  }
  const MicroBatch none = batch_of({}, 0, 0, request, {}, names_at(2));
  EXPECT_EQ(none.sizes.at("coarse.2.atoms"), 0);
  EXPECT_THAT(values_of<int64_t>(none, "coarse.2.first_edge"), ElementsAre(0));
}

// The clusters are cliques of two, joined to a ring, with the features of the given edges.
TEST(CoarseLevels, HaveTheMeansOfGivenFeatures) {
  GraphsRequest request{.given_edges = true, .edge_features = {"bond"}, .coarse_levels = 1};
  Structure structure{.species = std::vector<uint8_t>(4, 6), .positions = std::vector<double>(12), .has_edges = true};
  structure.edges = {.receivers = {3, 1, 2, 0, 2, 3, 1, 0}, .senders = {0, 0, 1, 1, 3, 2, 2, 3}};
  structure.of_edges["bond"] = {.width = 1, .values = {1, 9, 2, 9, 9, 9, 4, 8}};
  const MicroBatch batch = batch_of({&structure, 1}, 0, 0, request, {},
                                    {"coarse.1.edge_features", "coarse.1.clusters", "coarse.1.receivers"});
  EXPECT_THAT(values_of<int64_t>(batch, "coarse.1.clusters"), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(values_of<int64_t>(batch, "coarse.1.receivers"), ElementsAre(0, 1));
  EXPECT_THAT(values_of<float>(batch, "coarse.1.edge_features"), ElementsAre(6, 1.5));
}

}  // namespace
}  // namespace terrace::data
