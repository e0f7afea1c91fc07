// Tests that the sums of losses and errors do not depend on the number of threads.
#include "terrace/models/gnn/output_loss.h"

#include <gtest/gtest.h>

#include "tests/models/gnn/small_graphs.h"

namespace terrace::models::gnn {
namespace {

// More values than torch adds on one thread.
TEST(GnnOutputTerms, HaveTheSameBitsForAnyNumberOfThreads) {
  constexpr int64_t atoms = 50'000, columns = 3;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(8);
  const OutputConfig output{.name = "shift", .level = Level::node, .columns = columns};
  Batch batch{.samples = at::zeros({1}, at::kLong)};
  batch.tensors = {{"targets.shift", random_numbers({atoms, columns}, generator)},
                   {"scales.shift", at::full({1}, 0.75, at::kDouble)},
                   {"labelled.shift", at::ones({atoms, columns}, at::kFloat)}};
  Graphs graphs{.graphs = 1, .atoms = atoms};
  graphs.of_atoms = {at::zeros({atoms}, at::kLong), {}, at::tensor({int64_t{0}, atoms}, at::kLong)};
  const OutputPrediction value{random_numbers({atoms, columns}, generator).to(at::kFloat), {}};
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const OutputTerms one = output_terms(output, value, batch, graphs);
  at::set_num_threads(3);
  const OutputTerms three = output_terms(output, value, batch, graphs);
  at::set_num_threads(threads);
  EXPECT_TRUE(one.loss.equal(three.loss));
  EXPECT_TRUE(one.figures.equal(three.figures));
  const double squares = value.mean.to(at::kDouble).sub(batch["targets.shift"]).square().sum().item<double>();
  EXPECT_NEAR(one.loss.item<double>(), squares, 1e-6 * squares);
}

}  // namespace
}  // namespace terrace::models::gnn
