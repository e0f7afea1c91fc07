// Checks when the linear layer computes its weight gradient, and the buffer to which it is added.
#include "terrace/ops/products/linear.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace terrace::ops {
namespace {

struct Layer {
  Weight weight, bias;

  Layer(at::ScalarType type, at::ScalarType gradient_type) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
    const auto options = at::TensorOptions().dtype(gradient_type);
    weight = {at::randn({9, 5}, generator, at::TensorOptions()).to(type).set_requires_grad(true),
              at::zeros({9, 5}, options)};
    bias = {at::randn({9}, generator, at::TensorOptions()).to(type).set_requires_grad(true), at::zeros({9}, options)};
  }
};

at::Tensor some_input(at::ScalarType type) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(4);
  return at::randn({2, 7, 5}, generator, at::TensorOptions()).to(type).set_requires_grad(true);
}

void forward_and_backward(const Layer& layer, const at::Tensor& x, WeightGradientQueue* deferred) {
  const at::Tensor y = linear(x, layer.weight, layer.bias, deferred);
  torch::autograd::backward({y}, {at::ones_like(y).div(3)});
}

class LinearTypes : public ::testing::TestWithParam<std::pair<at::ScalarType, at::ScalarType>> {};

TEST_P(LinearTypes, DeferredWeightGradientsHaveTheSameBits) {
  const auto [type, gradient_type] = GetParam();
  const Layer immediate(type, gradient_type), later(type, gradient_type);
  const at::Tensor x = some_input(type), x_later = some_input(type);
  WeightGradientQueue queue;
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
    forward_and_backward(immediate, x, nullptr);
    forward_and_backward(later, x_later, &queue);
  }
  EXPECT_TRUE(x_later.grad().equal(x.grad()));
  EXPECT_EQ(later.weight.gradient.abs().max().item<double>(), 0.0);
  EXPECT_EQ(queue.size(), 2u);
  queue.run();
  EXPECT_EQ(queue.size(), 0u);
  EXPECT_GT(immediate.weight.gradient.abs().max().item<double>(), 0.0);
  EXPECT_TRUE(later.weight.gradient.equal(immediate.weight.gradient));
  EXPECT_TRUE(later.bias.gradient.equal(immediate.bias.gradient));
}

TEST_P(LinearTypes, AddUpTheGradientsOfTwoMicroBatches) {
  const auto [type, gradient_type] = GetParam();
  const Layer once(type, gradient_type), twice(type, gradient_type);
  forward_and_backward(once, some_input(type), nullptr);
  forward_and_backward(twice, some_input(type), nullptr);
  forward_and_backward(twice, some_input(type), nullptr);
  // Doubling is exact in every type; the second sum is added to the first one, which may round once more.
  const double step = gradient_type == at::kFloat ? 0x1p-22 : 0x1p-6;
  EXPECT_TRUE(twice.weight.gradient.allclose(once.weight.gradient.mul(2), step, step));
  EXPECT_TRUE(twice.bias.gradient.allclose(once.bias.gradient.mul(2), step, step));
}

INSTANTIATE_TEST_SUITE_P(Types, LinearTypes,
                         ::testing::Values(std::pair{at::kFloat, at::kFloat}, std::pair{at::kBFloat16, at::kFloat},
                                           std::pair{at::kBFloat16, at::kBFloat16}, std::pair{at::kHalf, at::kFloat}));

TEST(Linear, PassesTheInputGradientOnWithAFrozenWeight) {
  Layer layer(at::kFloat, at::kFloat);
  layer.weight = {layer.weight.value.detach(), {}};
  layer.bias = {layer.bias.value.detach(), {}};
  const at::Tensor x = some_input(at::kFloat);
  forward_and_backward(layer, x, nullptr);
  const at::Tensor columns = layer.weight.value.div(3).sum(0);
  EXPECT_TRUE(x.grad().allclose(columns.expand(x.sizes()), 1e-5, 1e-6));
}

TEST(Linear, ComputesNoGradientForAnInputOutsideTheGraph) {
  const Layer layer(at::kFloat, at::kFloat);
  const at::Tensor x = some_input(at::kFloat).detach();
  forward_and_backward(layer, x, nullptr);
  EXPECT_FALSE(x.grad().defined());
  EXPECT_GT(layer.weight.gradient.abs().max().item<double>(), 0.0);
}

}  // namespace
}  // namespace terrace::ops
