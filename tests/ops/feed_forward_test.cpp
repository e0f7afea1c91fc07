// Compares the fused feed-forward and the norm of a sum with the separate operations.
#include "terrace/ops/products/feed_forward.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <array>

#include "terrace/ops/elements/activation.h"
#include "terrace/ops/elements/dropout.h"
#include "terrace/ops/elements/norm.h"
#include "terrace/ops/products/linear.h"

namespace terrace::ops {
namespace {

at::Tensor leaf(at::IntArrayRef shape, at::ScalarType type, uint64_t seed) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::TensorOptions())
      .to(type)
      .set_requires_grad(true);
}

Weight weight(at::IntArrayRef shape, at::ScalarType type, uint64_t seed) {
  return {leaf(shape, type, seed), at::zeros(shape, at::TensorOptions().dtype(type))};
}

struct Layers {
  FeedForwardWeights weights;
  at::Tensor x;

  Layers(at::ScalarType type, bool bias, Activation activation) : x(leaf({2, 5, 12}, type, 1)) {
    at::set_num_threads(1);
    const int64_t inner = activation == Activation::swiglu ? 80 : 40;
    weights.first = weight({inner, 12}, type, 2);
    weights.second = weight({12, 40}, type, 3);
    if (bias) weights.first_bias = weight({inner}, type, 4);
    if (bias) weights.second_bias = weight({12}, type, 5);
  }
};

constexpr std::array activations = {Activation::gelu, Activation::gelu_erf, Activation::swiglu};

void expect_close(const at::Tensor& a, const at::Tensor& b, double relative) {
  EXPECT_LE(a.sub(b).abs().max().item<double>(), relative * b.abs().max().item<double>());
}

// Expects of both layers the same results and, where they have them, the same gradients.
void expect_same(Layers& fused, const at::Tensor& y, Layers& apart, const at::Tensor& expected) {
  constexpr double rounding = 40 * 0x1p-24;  // sums of 40 terms, rounded in another order
  expect_close(y, expected, rounding);
  torch::autograd::backward({y}, {at::ones_like(y)});
  torch::autograd::backward({expected}, {at::ones_like(y)});
  expect_close(fused.x.grad(), apart.x.grad(), rounding);
  expect_close(fused.weights.first.gradient, apart.weights.first.gradient, rounding);
  expect_close(fused.weights.second.gradient, apart.weights.second.gradient, rounding);
  if (!fused.weights.first_bias.value.defined()) return;
  expect_close(fused.weights.first_bias.gradient, apart.weights.first_bias.gradient, rounding);
  expect_close(fused.weights.second_bias.gradient, apart.weights.second_bias.gradient, rounding);
}

TEST(FeedForward, EqualsTwoLinearLayersAndAnActivation) {
  for (const Activation activation : activations) {
    for (const bool bias : {true, false}) {
      SCOPED_TRACE(::testing::Message() << static_cast<int>(activation) << bias);
      Layers fused(at::kFloat, bias, activation), apart(at::kFloat, bias, activation);
      const at::Tensor y = feed_forward(fused.x, fused.weights, activation);
      const at::Tensor inner = linear(apart.x, apart.weights.first, apart.weights.first_bias);
      const at::Tensor expected = linear(activated(inner, activation), apart.weights.second, apart.weights.second_bias);
      expect_same(fused, y, apart, expected);
    }
  }
}

// The columns of a head are beside each other, and the mask is that of heads with tokens one after another.
TEST(FeedForward, DropsWhatTheActivationGives) {
  const DropoutSite site{0.25, 3, 4, at::arange(7, 9, at::kLong), 0, 5};
  for (const Activation activation : {Activation::gelu, Activation::gelu_erf}) {
    Layers fused(at::kFloat, true, activation), apart(at::kFloat, true, activation);
    const InnerDropout inner_dropout{draw_of(site, "inner"), 4};
    const at::Tensor y = feed_forward(fused.x, fused.weights, activation, nullptr, inner_dropout);
    const at::Tensor active = activated(linear(apart.x, apart.weights.first, apart.weights.first_bias), activation);
    const at::Tensor kept = dropout(active.unflatten(-1, {4, 10}).transpose(1, 2), site, "inner");
    EXPECT_GT(kept.eq(0).sum().item<int64_t>(), 0);
    const at::Tensor expected =
        linear(kept.transpose(1, 2).flatten(2), apart.weights.second, apart.weights.second_bias);
    expect_same(fused, y, apart, expected);
  }
}

TEST(FeedForward, DeferredWeightGradientsHaveTheSameBits) {
  for (const Activation activation : activations) {
    Layers now(at::kFloat, true, activation), later(at::kFloat, true, activation);
    WeightGradientQueue queue;
    const at::Tensor y = feed_forward(now.x, now.weights, activation);
    torch::autograd::backward({y}, {at::ones_like(y)});
    torch::autograd::backward({feed_forward(later.x, later.weights, activation, &queue)}, {at::ones_like(y)});
    EXPECT_EQ(queue.size(), 2u);
    EXPECT_EQ(later.weights.first.gradient.abs().max().item<double>(), 0.0);
    queue.run();
    EXPECT_TRUE(later.x.grad().equal(now.x.grad()));
    EXPECT_TRUE(later.weights.first.gradient.equal(now.weights.first.gradient));
    EXPECT_TRUE(later.weights.second.gradient.equal(now.weights.second.gradient));
    EXPECT_TRUE(later.weights.first_bias.gradient.equal(now.weights.first_bias.gradient));
  }
}

TEST(ResidualStream, NextNormSumsWithTheBitsOfAdditionAndNorm) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor x = leaf({3, 7, 20}, type, 1), added = leaf({3, 7, 20}, type, 2);
    const Weight scale = weight({20}, type, 3), shift = weight({20}, type, 4);
    const ResidualStream before = ResidualStream{x} + added;
    EXPECT_TRUE(before.x.is_same(x)) << "an addition passes over memory";
    EXPECT_TRUE(before.sum().equal(x.add(added)));
    ResidualStream centered = before, scaled = before, alone{x};
    EXPECT_TRUE(layer_norm(centered, scale, shift, 1e-5).equal(layer_norm(x.add(added), scale, shift, 1e-5)));
    EXPECT_TRUE(rms_norm(scaled, scale, 1e-5).equal(rms_norm(x.add(added), scale, 1e-5)));
    EXPECT_TRUE(rms_norm(alone, scale, 1e-5).equal(rms_norm(x, scale, 1e-5)));
    for (const auto& [stream, sum] : {std::pair{centered, x.add(added)}, {scaled, x.add(added)}, {alone, x}}) {
      EXPECT_FALSE(stream.branch.defined());
      EXPECT_TRUE(stream.x.equal(sum));
    }
    // The first branch is summed when the second one is added.
    EXPECT_TRUE((before + added).sum().equal(x.add(added).add(added)));
  }
}

TEST(ResidualStream, GradientsOfTheSumAndOfItsNorm) {
  const auto gradients = [](bool fused, bool use_sum, bool use_norm) {
    const at::Tensor x = leaf({6, 20}, at::kFloat, 1), added = leaf({6, 20}, at::kFloat, 2);
    const Weight scale = weight({20}, at::kFloat, 3);
    at::Tensor sum, y;
    if (fused) {
      ResidualStream stream = ResidualStream{x} + added;
      y = rms_norm(stream, scale, 1e-5);
      sum = stream.sum();
    } else {
      sum = x.add(added), y = rms_norm(sum, scale, 1e-5);
    }
    std::vector<at::Tensor> roots, from;
    if (use_sum) roots.push_back(sum), from.push_back(leaf({6, 20}, at::kFloat, 6).detach());
    if (use_norm) roots.push_back(y), from.push_back(leaf({6, 20}, at::kFloat, 7).detach());
    torch::autograd::backward(roots, from);
    return std::vector<at::Tensor>{x.grad(), added.grad(), scale.gradient};
  };
  for (const auto& [use_sum, use_norm] : {std::pair{true, true}, {true, false}, {false, true}}) {
    const auto fused = gradients(true, use_sum, use_norm), apart = gradients(false, use_sum, use_norm);
    for (size_t i = 0; i < fused.size(); ++i) EXPECT_TRUE(fused[i].equal(apart[i])) << i << use_sum << use_norm;
  }
}

}  // namespace
}  // namespace terrace::ops
