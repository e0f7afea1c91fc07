// Checks that recompute gives the same bits as a plain call, runs the function twice and reaches its parameters.
#include "terrace/ops/recompute.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "terrace/ops/elements/activation.h"
#include "terrace/ops/products/linear.h"

namespace terrace::ops {
namespace {

at::Tensor line(int64_t rows, int64_t columns) {
  return at::linspace(-1, 1, rows * columns).view({rows, columns}).clone().set_requires_grad(true);
}

struct Outcome {
  at::Tensor y, x_gradient, buffer, leaf_gradient;
  int calls = 0;
};

// A function of a weight with a gradient buffer of its own and of a leaf whose gradient autograd accumulates.
Outcome outcome(bool again) {
  Outcome result;
  const at::Tensor x = line(3, 4), leaf = line(3, 5);
  Weight weight{line(5, 4), {}};
  weight.gradient = at::zeros_like(weight.value.detach());
  const auto function = [&](const at::Tensor& input) {
    ++result.calls;
    return activated(linear(input, weight, {}), Activation::gelu).mul(leaf);
  };
  result.y = again ? recompute(function, x.mul(2)) : function(x.mul(2));
  torch::autograd::backward({result.y}, {at::ones_like(result.y)});
  result.x_gradient = x.grad();
  result.buffer = weight.gradient;
  result.leaf_gradient = leaf.grad();
  return result;
}

TEST(Recompute, GivesTheSameBits) {
  const Outcome kept = outcome(false), again = outcome(true);
  EXPECT_EQ(kept.calls, 1);
  EXPECT_EQ(again.calls, 2);
  EXPECT_TRUE(again.y.equal(kept.y));
  EXPECT_TRUE(again.x_gradient.equal(kept.x_gradient));
  EXPECT_TRUE(again.buffer.equal(kept.buffer));
  EXPECT_TRUE(again.leaf_gradient.equal(kept.leaf_gradient));
  EXPECT_GT(kept.buffer.abs().sum().item<double>(), 0.0);
}

TEST(Recompute, NestsInItself) {
  const at::Tensor x = line(2, 3), y = line(2, 3);
  const auto inner = [](const at::Tensor& input) { return input.mul(input); };
  const auto outer = [&](const at::Tensor& input) { return recompute(inner, input).mul(input); };
  const at::Tensor result = recompute(outer, x);
  torch::autograd::backward({result}, {at::ones_like(result)});
  EXPECT_TRUE(x.grad().allclose(y.detach().square().mul(3), 1e-6, 1e-7));
}

TEST(Recompute, PlainCallWhereNothingIsDifferentiated) {
  int calls = 0;
  const auto function = [&](const at::Tensor& input) {
    ++calls;
    return input.mul(2);
  };
  at::NoGradGuard no_grad;
  EXPECT_FALSE(recompute(function, line(1, 1)).requires_grad());
  EXPECT_EQ(calls, 1);
}

TEST(Recompute, LosesNoParameterWhereTheInputIsOutsideTheGraph) {
  const at::Tensor leaf = line(2, 2);
  const at::Tensor y = recompute([&](const at::Tensor& input) { return input.mul(leaf); }, line(2, 2).detach());
  torch::autograd::backward({y}, {at::ones_like(y)});
  EXPECT_TRUE(leaf.grad().defined());
}

}  // namespace
}  // namespace terrace::ops
