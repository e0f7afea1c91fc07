// Compares the operations of the unit table of graph networks with those that are recorded while a batch is trained,
// with and without derivatives, and looks at how they grow with graphs, atoms and edges.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "terrace/data/graphs/graph_batch.h"
#include "terrace/data/graphs/neighbours.h"
#include "terrace/data/graphs/structures/structure_stream.h"
#include "terrace/models/gnn/cost/request.h"
#include "terrace/profile/operation_recorder.h"
#include "terrace/profile/record.h"
#include "tests/data/graph_files.h"
#include "tests/models/gnn/small_graphs.h"

namespace terrace::models::gnn {
namespace {

double products_of(const std::vector<schedule::Operation>& operations) {
  double flops = 0;
  for (const schedule::Operation& one : operations) flops += one.flops();
  return flops;
}

// The FLOPs of the products of linear layers alone: those of our kernels, without torch's element-wise operations.
double recorded_products(Gnn& model, const Batch& batch, const Pass& pass) {
  profile::OperationRecorder recorder(at::kCPU);
  terms_and_gradients(model, batch, pass);
  double flops = 0;
  for (const observe::Lane& lane : recorder.finish()) {
    for (const observe::Span& span : lane.spans) {
      if (span.kind == observe::SpanKind::operation) flops += span.flops;
    }
  }
  return flops;
}

TEST(GnnOperations, ProductsAreThoseOfATrainedBatch) {
  for (const SmallGnn& small : small_gnns()) {
    SCOPED_TRACE(small.name);
    const auto model = drawn(small.config, at::kFloat);
    const Batch batch = some_graphs(small.config, some_structures(1), 1);
    double planned = 0;
    for (const schedule::UnitRow& row :
         unit_table(small.config, {.samples = batch.samples.size(0), .sizes = batch.sizes})) {
      EXPECT_EQ(products_of(row.operations.forward), row.forward_flops) << row.name;
      EXPECT_EQ(products_of(row.operations.input_gradient), row.input_gradient_flops) << row.name;
      EXPECT_EQ(products_of(row.operations.weight_gradient), row.weight_gradient_flops) << row.name;
      planned += row.counted_flops;
    }
    EXPECT_EQ(recorded_products(*model, batch, training_pass(small.config)), planned);
  }
}

TEST(GnnOperations, GrowInProportionToGraphsAtomsAndEdges) {
  for (const SmallGnn& small : small_gnns()) {
    SCOPED_TRACE(small.name);
    const auto flops = [&](int64_t graphs, int64_t atoms, int64_t edges) {
      return schedule::counted_flops(
          unit_table(small.config, {.samples = graphs, .sizes = {{"atoms", atoms}, {"edges", edges}}}));
    };
    EXPECT_EQ(flops(0, 0, 0), 0.0);
    // Two edges are a pair in some networks, and coarse levels have whole shares of thousands.
    EXPECT_EQ(flops(3000, 40'000, 500'000), 3 * flops(1000, 0, 0) + 40 * flops(0, 1000, 0) + 250 * flops(0, 0, 2000));
    const data::GraphCost cost = graph_cost(small.config);
    EXPECT_GT(cost.atom, 0);
    EXPECT_GT(cost.edge, 0);
    EXPECT_GE(cost.graph, 0);
  }
}

// The products of a network on coarse graphs of the structures as a plan assumes them, over what they are.
double assumed_products(const data::GraphsRequest& request, const std::vector<data::Structure>& structures, Conv conv) {
  ModelConfig config = small_gnn(conv, many_outputs());
  config.layers = 3;
  config.pool_every = 1;
  config.edges = request.given_edges ? Edges::given : Edges::radius;
  config = with_derived_values(config);
  const Sizes sizes = data::batch_of(structures, 0, 0, request, {}, {"coarse.1.clusters"}).sizes;
  const Sizes finest = {{"atoms", sizes.at("atoms")}, {"edges", sizes.at("edges")}};
  const auto flops = [&](const Sizes& of_batch) {
    return schedule::counted_flops(unit_table(config, {.samples = std::ssize(structures), .sizes = of_batch}));
  };
  return flops(finest) / flops(sizes);
}

// Nodes of a grid of triangles, without positions.
data::Structure mesh_of_triangles(int32_t rows) {
  data::Structure mesh{.species = std::vector<uint8_t>(static_cast<size_t>(rows * rows)), .has_edges = true};
  mesh.positions.resize(3 * mesh.species.size());
  for (int32_t row = 0; row < rows; ++row) {
    for (int32_t column = 0; column < rows; ++column) {
      for (const auto& [down, right] : {std::pair(0, 1), {1, 0}, {1, 1}}) {
        if (row + down == rows || column + right == rows) continue;
        const int32_t here = row * rows + column, there = (row + down) * rows + column + right;
        mesh.edges.receivers.insert(mesh.edges.receivers.end(), {here, there});
        mesh.edges.senders.insert(mesh.edges.senders.end(), {there, here});
      }
    }
  }
  return mesh;
}

// Atoms nearer than 1.7 angstrom, which is less than between two hydrogen atoms of one carbon atom.
data::Structure with_bonds(data::Structure structure) {
  const data::NeighbourList list = data::find_neighbours(structure.positions, structure.cell, {.cutoff = 1.7});
  structure.has_edges = true;
  structure.edges = {list.receivers, list.senders};
  return structure;
}

// A plan does not know the sizes of the coarse levels.
TEST(GnnOperations, OfCoarseGraphsAreAssumedToATenth) {
  const std::string molecules = data::fetched_molecules();
  if (molecules.empty()) GTEST_SKIP() << "the package with the molecules cannot be fetched";
  std::vector<data::Structure> structures = data::StructureStream(molecules, "all").next(1000);
  for (const Conv conv : {Conv::schnet, Conv::egnn, Conv::pna}) {
    SCOPED_TRACE(config::name_of(conv));
    for (const double radius : {4.0, 5.0, 6.0}) {
      const data::GraphsRequest request{.radius = radius, .coarse_levels = 2};
      EXPECT_NEAR(assumed_products(request, structures, conv), 1.0, 0.1) << radius;
    }
    const data::GraphsRequest given{.given_edges = true, .coarse_levels = 2};
    std::vector<data::Structure> bonded;
    for (const data::Structure& structure : structures) bonded.push_back(with_bonds(structure));
    EXPECT_NEAR(assumed_products(given, bonded, conv), 1.0, 0.1);
    EXPECT_NEAR(assumed_products(given, {mesh_of_triangles(30)}, conv), 1.0, 0.1);
  }
}

// Worked out by hand for three layers: a derivative doubles the products of what the energy's gradient passes.
TEST(GnnOperations, DerivativesDoubleTheProductsOfALayer) {
  ModelConfig config = small_gnn(Conv::schnet, potential());
  config.outputs.resize(1);
  ModelConfig with_forces = config;
  with_forces.outputs = potential();
  const schedule::UnitTableOptions options{.samples = 2, .sizes = {{"atoms", 10}, {"edges", 60}}};
  config = with_derived_values(config);
  with_forces = with_derived_values(with_forces);
  const schedule::UnitRow plain = unit_table(config, options)[2], twice = unit_table(with_forces, options)[2];
  EXPECT_EQ(twice.forward_flops, 2 * plain.forward_flops);
  EXPECT_EQ(twice.weight_gradient_flops, 2 * plain.weight_gradient_flops);
  // The radial functions have a gradient only where forces need it: in the forward, and here that of that gradient.
  const double of_radial = 2.0 * 60 / 2 * static_cast<double>(config.radial * config.filters);  // of pairs
  EXPECT_EQ(twice.input_gradient_flops, 2 * plain.input_gradient_flops + of_radial);
}

}  // namespace
}  // namespace terrace::models::gnn
