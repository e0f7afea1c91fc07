// Tests the standard deviations of PNA's messages where they are small beside the mean and where they are 0, and the
// norms of PaiNN's vectors where these are 0.
#include <ATen/ops/arange.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/models/gnn/small_graphs.h"

namespace terrace::models::gnn {
namespace {

constexpr int64_t pna_width = 3, pna_senders = 40;

ModelConfig deviating(Conv conv) {
  ModelConfig config = small_gnn(conv, potential());
  config.width = pna_width;
  config.activation = Activation::silu;
  return with_derived_values(config);
}

// Atom 0 receives an edge from each of the others, which have no edges of their own, and neither has the last atom.
Graphs one_receiver() {
  const int64_t atoms = pna_senders + 2;
  const at::TensorOptions whole(at::kLong);
  const at::Tensor receivers = at::zeros({pna_senders}, whole);
  const ops::Segments received = ops::segments_of(receivers, atoms),
                      sent = ops::segments_of(at::arange(1, pna_senders + 1, whole), atoms);
  return {.graphs = 1,
          .atoms = atoms,
          .receivers = {receivers, {}, received.first},
          .senders = sent,
          .pairs = ops::pairs_of({receivers, {}, received.first}, sent, {}, {}),
          .degree_means = at::ones({2}, at::kDouble)};
}

// A layer whose messages are the states of their senders, and whose output is the unscaled standard deviation alone.
void make_pass_on_deviations(PnaLayer& layer, at::ScalarType type) {
  const at::NoGradGuard no_grad;
  for (nn::Parameter* parameter : layer.parameters()) {
    parameter->value.fill_(0.0);
    const at::Tensor identity = at::eye(pna_width, at::TensorOptions(type));
    if (parameter->name == "messages.sender.weight") parameter->value.copy_(identity);
    // Columns are the state, then mean, least, largest and deviation.
    if (parameter->name == "output.weight") parameter->value.narrow(1, 4 * pna_width, pna_width).copy_(identity);
  }
}

struct DeviatingLayer {
  explicit DeviatingLayer(at::ScalarType type)
      : layer(deviating(Conv::pna), {.first = true, .last = true}, {.type = type}), graphs(one_receiver()) {
    make_pass_on_deviations(layer, type);
    nn::allocate_gradients(layer.parameters(), type);
    graphs.geometry.features = at::zeros({pna_senders, deviating(Conv::pna).edge_columns()}, type);
  }
  // [N, F]: of the messages that each atom receives, which are the rows of x.
  at::Tensor deviations(const at::Tensor& x) const { return layer.forward({.scalars = x}, graphs, {}).scalars; }

  PnaLayer layer;
  Graphs graphs;
};

// PyTorch Geometric takes the mean of the squares less the square of the mean, which has no correct digit here: squares
// near 1e6 are rounded to 0.06, and the variance is 0.01.
TEST(PnaLayer, KeepsTheDigitsOfDeviationsFarFromZero) {
  const DeviatingLayer layer(at::kFloat);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(5);
  const at::Tensor x = random_numbers({layer.graphs.atoms, pna_width}, generator).mul(0.1).add(1000.0).to(at::kFloat);
  const at::Tensor sent = x.narrow(0, 1, pna_senders);
  const at::Tensor exact = sent.to(at::kDouble).var(0, /*unbiased=*/false).sqrt();
  const at::Tensor ours = layer.deviations(x)[0].detach();
  // The mean near 1000 is rounded to 3e-5, and its error enters the variance squared.
  EXPECT_LE(ours.to(at::kDouble).sub(exact).abs().max().item<double>(), 1e-6);
  const at::Tensor theirs = sent.square().mean(0).sub(sent.mean(0).square()).clamp_min(0.0).sqrt();
  EXPECT_GE(theirs.to(at::kDouble).sub(exact).abs().max().item<double>(), 1e-2) << "the test proves nothing";
}

// The first derivative of the deviations by the states, and the derivative of its squares.
struct TwoDerivatives {
  at::Tensor first, second;
};
template <typename F>
TwoDerivatives derivatives_at(const at::Tensor& at_x, const F& function) {
  const at::AutoGradMode with_graph(true);
  const at::Tensor x = at_x.detach().clone().requires_grad_(true);
  const at::Tensor first = torch::autograd::grad({function(x)}, {x}, {}, true, /*create_graph=*/true).front();
  // The second derivative is 0 where the first one does not depend on x.
  const at::Tensor depending = first.square().sum().add(x.sum().mul(0.0));
  return {first.detach(), torch::autograd::grad({depending}, {x}).front()};
}

TEST(PnaLayer, HasFiniteDerivativesWhereDeviationsAreZero) {
  const DeviatingLayer layer(at::kDouble);
  const int64_t atoms = layer.graphs.atoms;
  const at::Tensor same = at::full({atoms, pna_width}, 0.7, at::kDouble);
  at::Tensor nearly = same.clone(), apart = same.clone();
  nearly[1].add_(1e-9);
  apart[1].add_(1.0);
  const auto sum_of_deviations = [&](const at::Tensor& x) { return layer.deviations(x).sum(); };
  for (const at::Tensor& x : {same, nearly, apart}) {
    const TwoDerivatives found = derivatives_at(x, sum_of_deviations);
    EXPECT_TRUE(found.first.isfinite().all().item<bool>());
    EXPECT_TRUE(found.second.isfinite().all().item<bool>());
    // No message depends on the receiver or on the isolated atom.
    EXPECT_EQ(found.first[0].count_nonzero().item<int64_t>(), 0);
    EXPECT_EQ(found.first[atoms - 1].count_nonzero().item<int64_t>(), 0);
    EXPECT_EQ(found.first.count_nonzero().item<int64_t>() > 0, x.is_same(apart));
  }
  EXPECT_EQ(layer.deviations(same).count_nonzero().item<int64_t>(), 0);
}

// Vectors are 0 before the first layer, and at atoms without edges after it too.
TEST(PaiNNLayer, HasFiniteDerivativesWhereVectorsAreZero) {
  const ModelConfig config = deviating(Conv::painn);
  const Batch batch = some_graphs(config, some_structures(1, false), 1);
  const int64_t atoms = batch["graphs"].size(0);
  const at::Tensor has_edges = at::zeros({atoms}, at::kLong).index_fill(0, batch["receivers"], 1);
  ASSERT_LT(has_edges.sum().item<int64_t>(), atoms) << "no atom is isolated";
  PaiNNLayer layer(config, {.first = false, .last = false}, {.type = at::kDouble});
  auto generator = at::make_generator<at::CPUGeneratorImpl>(6);
  for (nn::Parameter* parameter : layer.parameters()) {
    const at::NoGradGuard no_grad;
    parameter->value.normal_(0, 0.3, generator);
  }
  nn::allocate_gradients(layer.parameters(), at::kDouble);
  const Graphs graphs = graphs_of(config, batch, vectors_of(config, batch), at::kDouble);
  const at::Tensor scalars = random_numbers({atoms, pna_width}, generator);
  const TwoDerivatives by_vectors =
      derivatives_at(at::zeros({atoms, 3, pna_width}, at::kDouble), [&](const at::Tensor& vectors) {
        const States behind = layer.forward({.scalars = scalars, .vectors = vectors}, graphs, {});
        return behind.scalars.square().sum().add(behind.vectors.square().sum());
      });
  EXPECT_TRUE(by_vectors.first.isfinite().all().item<bool>());
  EXPECT_TRUE(by_vectors.second.isfinite().all().item<bool>());
  EXPECT_GT(by_vectors.first.abs().max().item<double>(), 0.0);
}

}  // namespace
}  // namespace terrace::models::gnn
