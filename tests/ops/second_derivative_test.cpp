// Asks for derivatives of derivatives, which would lose terms and change buffers of gradients without a word.
#include "terrace/ops/second_derivative.h"

#include <ATen/ops/linspace.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <string>

#include "terrace/ops/activation.h"
#include "terrace/ops/linear.h"
#include "terrace/ops/norm.h"

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
  const Weight weight = weight_of(GetParam().name == "linear" ? graded_line(5, 4) : graded_line(1, 4).view({4}));
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

INSTANTIATE_TEST_SUITE_P(
    Operations, SecondDerivative,
    ::testing::Values(
        DifferentiatedCase{"linear", [](const at::Tensor& x, const Weight& weight) { return linear(x, weight, {}); }},
        DifferentiatedCase{"norm", [](const at::Tensor& x, const Weight& weight) { return rms_norm(x, weight, 1e-5); }},
        DifferentiatedCase{"activation",
                           [](const at::Tensor& x, const Weight&) { return activated(x, Activation::swiglu); }}));

}  // namespace
}  // namespace terrace::ops
