// Asks for derivatives of derivatives: of operations that would lose terms and change buffers of gradients without a
// word, and of the linear layer, which has them.
#include "terrace/ops/second_derivative.h"

#include <ATen/ops/linspace.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/accumulate.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <string>
#include <vector>

#include "terrace/ops/elements/activation.h"
#include "terrace/ops/elements/norm.h"
#include "terrace/ops/products/linear.h"
#include "terrace/ops/products/product.h"

namespace terrace::ops {
namespace {

at::Tensor graded_line(int64_t rows, int64_t columns) {
  return at::linspace(-1, 1, rows * columns).view({rows, columns}).clone().set_requires_grad(true);
}

Weight weight_of(const at::Tensor& value) { return {value, at::zeros_like(value.detach())}; }

struct DifferentiatedCase {
  std::string name;
  std::function<at::Tensor(const at::Tensor&, const Weight&)> function;
};

void PrintTo(const DifferentiatedCase& one, std::ostream* stream) { *stream << one.name; }

class SecondDerivative : public ::testing::TestWithParam<DifferentiatedCase> {};

TEST_P(SecondDerivative, RefusesTheSecondButNotTheFirst) {
  const at::Tensor x = graded_line(3, 4);
  const Weight weight = weight_of(graded_line(1, 4).view({4}));
  const auto derivative = [&](bool create_graph) {
    return torch::autograd::grad({GetParam().function(x, weight).square().sum()}, {x}, {}, create_graph,
                                 create_graph)[0];
  };
  EXPECT_GT(derivative(false).abs().sum().item<double>(), 0.0);
  const at::Tensor buffer = weight.gradient.clone();
  try {
    derivative(true);
    FAIL() << "a graph of the backward was made";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("the derivative of " + GetParam().name));
  }
  EXPECT_TRUE(weight.gradient.equal(buffer));
}

INSTANTIATE_TEST_SUITE_P(Operations, SecondDerivative,
                         ::testing::Values(DifferentiatedCase{"norm",
                                                              [](const at::Tensor& x, const Weight& weight) {
                                                                return rms_norm(x, weight, 1e-5);
                                                              }},
                                           DifferentiatedCase{"activation", [](const at::Tensor& x, const Weight&) {
                                                                return activated(x, Activation::swiglu);
                                                              }}));

// A loss of the derivative of a product's square, and of the product, by torch and by ours.
TEST(SecondDerivativeOfProduct, EqualsTorchsForBothFactors) {
  struct Gradients {
    at::Tensor x, w;
  };
  const auto train = [](bool own) {
    const at::Tensor x = graded_line(7, 4).detach().to(at::kDouble).sin().set_requires_grad(true);
    const at::Tensor w = graded_line(5, 4).detach().to(at::kDouble).cos().set_requires_grad(true);
    const at::Tensor y = own ? product(x, w, {}) : x.mm(w.t());
    const at::Tensor forces = torch::autograd::grad({y.square().sum()}, {x}, {}, true, true)[0];
    torch::autograd::backward({y.tanh().sum().add(forces.square().sum(), 0.5)}, {});
    return Gradients{x.grad(), w.grad()};
  };
  const Gradients own = train(true), torch = train(false);
  EXPECT_TRUE(own.x.allclose(torch.x, 1e-12, 1e-12));
  EXPECT_TRUE(own.w.allclose(torch.w, 1e-12, 1e-12));
}

TEST(SecondDerivativeOfProduct, RefusesThatOfTheSecondFactor) {
  const at::Tensor x = graded_line(3, 4), w = graded_line(5, 4);
  EXPECT_THROW(torch::autograd::grad({product(x, w, {}).square().sum()}, {w}, {}, true, true), std::runtime_error);
}

// Two layers with a function between them, and a loss of the derivative of their sum, as forces are trained on.
TEST(SecondDerivativeOfLinear, EqualsTorchsForInputsWeightsAndBiases) {
  const auto wide = [](at::IntArrayRef sizes, double from) {
    const int64_t n = c10::multiply_integers(sizes);
    return at::linspace(from, 1.3, n, at::TensorOptions().dtype(at::kDouble)).sin().view(sizes).clone();
  };
  const at::Tensor target = wide({2, 3, 4}, 0.7);
  struct Gradients {
    at::Tensor loss, x;
    std::vector<at::Tensor> of_parameters;
  };
  const auto train = [&](bool own) {
    const at::Tensor x = wide({2, 3, 4}, -1.0).set_requires_grad(true);
    std::vector<Weight> parameters;
    for (const at::Tensor& value : {wide({5, 4}, -0.9), wide({5}, -0.3), wide({2, 5}, -0.5), wide({2}, 0.1)}) {
      parameters.push_back(weight_of(value.clone().set_requires_grad(true)));
    }
    const auto layer = [&](const at::Tensor& in, size_t weight) {
      const Weight &w = parameters[weight], &b = parameters[weight + 1];
      return own ? linear(in, w, b) : in.matmul(w.value.t()).add(b.value);
    };
    const at::Tensor energies = layer(layer(x, 0).tanh(), 2).square();
    const at::Tensor forces = torch::autograd::grad({energies.sum()}, {x}, {}, true, true)[0];
    for (const Weight& parameter : parameters) EXPECT_EQ(parameter.gradient.abs().sum().item<double>(), 0.0);
    const at::Tensor loss = energies.sum().add(forces.sub(target).square().sum(), 0.5);
    torch::autograd::backward({loss}, {});
    Gradients result{loss.detach(), x.grad(), {}};
    for (const Weight& parameter : parameters) {
      result.of_parameters.push_back(own ? parameter.gradient : parameter.value.grad());
    }
    return result;
  };
  const Gradients own = train(true), torchs = train(false);
  EXPECT_TRUE(own.loss.allclose(torchs.loss, 1e-12));
  EXPECT_TRUE(own.x.allclose(torchs.x, 1e-11, 1e-11));
  for (size_t i = 0; i < own.of_parameters.size(); ++i) {
    EXPECT_GT(torchs.of_parameters[i].abs().sum().item<double>(), 0.0);
    EXPECT_TRUE(own.of_parameters[i].allclose(torchs.of_parameters[i], 1e-11, 1e-11)) << "parameter " << i;
  }
}

}  // namespace
}  // namespace terrace::ops
