// Compares the operations of the unit table of graph networks with those that are recorded while a batch is trained,
// with and without derivatives, and looks at how they grow with graphs, atoms and edges.
#include <gtest/gtest.h>

#include "terrace/models/gnn/cost/request.h"
#include "terrace/profile/operation_recorder.h"
#include "terrace/profile/record.h"
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
    // Two edges are a pair in some networks.
    EXPECT_EQ(flops(3, 40, 500), 3 * flops(1, 0, 0) + 40 * flops(0, 1, 0) + 250 * flops(0, 0, 2));
    const data::GraphCost cost = graph_cost(small.config);
    EXPECT_GT(cost.atom, 0);
    EXPECT_GT(cost.edge, 0);
    EXPECT_GE(cost.graph, 0);
  }
}

// Of three layers by hand: a derivative doubles the products of what the energy's gradient passes.
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
  // The radial functions have a gradient only where forces need it.
  const double of_radial = 2.0 * 60 / 2 * static_cast<double>(config.radial * config.filters);  // of pairs
  EXPECT_EQ(twice.input_gradient_flops, 2 * (plain.input_gradient_flops + of_radial));
}

}  // namespace
}  // namespace terrace::models::gnn
