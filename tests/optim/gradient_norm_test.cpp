// Checks that the gradient norm is exact on integers, independent of threads, and names the first bad parameter.
#include "terrace/optim/gradient_norm.h"

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "terrace/comm/threads/threads.h"
#include "terrace/optim/kernels.h"
#include "terrace/optim/loss_scale.h"

namespace terrace::optim {
namespace {

nn::Parameter parameter_with(std::string name, at::Tensor gradient) {
  nn::Parameter parameter;
  parameter.name = std::move(name);
  parameter.gradient = std::move(gradient);
  return parameter;
}

// The norm of parameters without flat buffers on one rank.
GradientNorm norm_of(const std::vector<nn::Parameter*>& parameters) {
  const auto world = comm::make_solo_world();
  const auto group = world->connect({.name = "data", .ranks = {0}});
  for (nn::Parameter* parameter : parameters) parameter->value = parameter->gradient;
  return gradient_norm(whole_parameters(parameters), *group, *group);
}

TEST(GradientNorm, ExactOnIntegers) {
  // 4 * 9 + 5 * 16 = 116 = 10.77..^2; then as many ones as a piece has elements, plus one.
  nn::Parameter a = parameter_with("a", at::full({2, 2}, 3.0, at::kFloat));
  nn::Parameter b = parameter_with("b", at::full({5}, 4.0, at::kBFloat16));
  EXPECT_EQ(norm_of({&a, &b}).norm, std::sqrt(116.0));
  nn::Parameter c = parameter_with("c", at::ones({norm_piece + 1}));
  EXPECT_EQ(norm_of({&c}).norm, std::sqrt(static_cast<double>(norm_piece + 1)));
  EXPECT_EQ(squares_by_piece(c.gradient).numel(), 2);
}

TEST(GradientNorm, SameBitsOnAnyThreads) {
  nn::Parameter a = parameter_with("a", at::ones({300001}).div_(3).cumsum(0));
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const double one = norm_of({&a}).norm;
  at::set_num_threads(2);
  const double two = norm_of({&a}).norm;
  at::set_num_threads(threads);
  EXPECT_EQ(one, two);
}

TEST(GradientNorm, NamesTheFirstBadParameter) {
  nn::Parameter good = parameter_with("good", at::ones({70000}));
  nn::Parameter bad = parameter_with("bad", at::ones({70000}));
  nn::Parameter worse = parameter_with("worse", at::full({3}, std::nan("")));
  bad.gradient[69999] = std::numeric_limits<float>::infinity();
  const GradientNorm result = norm_of({&good, &bad, &worse});
  EXPECT_FALSE(std::isfinite(result.norm));
  EXPECT_EQ(result.first_bad, "bad");
}

// Two ranks hold one half of the model each; rank 1 also holds a copy of the last parameter of rank 0.
std::vector<GradientNorm> norms_of_halves(double last_gradient) {
  std::vector<GradientNorm> norms(2);
  comm::run_threads(2, {.timeout_seconds = 60}, [&](comm::World& world) {
    const int64_t rank = world.rank();
    const auto data = world.connect({.name = "data", .ranks = {rank}});
    const auto model_parallel = world.connect({.name = "model_parallel", .ranks = {0, 1}});
    nn::Parameter own = parameter_with(rank == 0 ? "a" : "b", at::full({1500}, rank + 1.0, at::kFloat));
    nn::Parameter shared = parameter_with("shared", at::full({4}, 3.0, at::kFloat));
    if (rank == 1) own.gradient[1499] = last_gradient;
    for (nn::Parameter* parameter : {&own, &shared}) {
      parameter->value = parameter->gradient;
      parameter->mark = ParamMark::replicated(parameter->gradient.sizes().vec());
    }
    shared.mark.counted = rank == 0;
    norms[static_cast<size_t>(rank)] = gradient_norm(whole_parameters({&own, &shared}), *data, *model_parallel);
  });
  return norms;
}

TEST(GradientNorm, CountsElementsOfModelParallelRanksOnce) {
  for (const GradientNorm& result : norms_of_halves(2.0)) {
    EXPECT_EQ(result.norm, std::sqrt(1500.0 + 4 * 1500.0 + 4 * 9.0));
    EXPECT_EQ(result.first_bad, "");
  }
}

TEST(GradientNorm, NamesABadParameterOfAnyModelParallelRank) {
  for (const GradientNorm& result : norms_of_halves(std::nan(""))) {
    EXPECT_FALSE(std::isfinite(result.norm));
    EXPECT_EQ(result.first_bad, "b");
  }
}

TEST(ClipMultiplier, BringsTheNormDownToTheLimit) {
  EXPECT_EQ(clip_multiplier(4.0, 1.0), 0.25);
  EXPECT_EQ(clip_multiplier(0.5, 1.0), 1.0);
  EXPECT_EQ(clip_multiplier(4.0, 0.0), 1.0);
}

TEST(LossScale, HalvesOnOverflowAndDoublesAfterAWindow) {
  LossScale scale{.scale = 1024, .window = 2};
  EXPECT_TRUE(scale.update(true));
  EXPECT_EQ(scale.scale, 1024);
  EXPECT_FALSE(scale.update(false));
  EXPECT_EQ(scale.scale, 512);
  EXPECT_TRUE(scale.update(true));
  EXPECT_TRUE(scale.update(true));
  EXPECT_EQ(scale.scale, 1024);
  while (!scale.exhausted()) scale.update(false);
  EXPECT_EQ(scale.scale, LossScale::smallest / 2);
}

TEST(LossScale, AShorterWindowCountsEarlierSteps) {
  LossScale scale{.scale = 4, .window = 1000, .good_steps = 40};
  scale.window = 10;
  EXPECT_TRUE(scale.update(true));
  EXPECT_EQ(scale.scale, 8);
  EXPECT_EQ(scale.good_steps, 0);
}

TEST(LossScale, StaysOneWithoutAWindow) {
  LossScale scale;
  EXPECT_TRUE(scale.update(true));
  EXPECT_FALSE(scale.update(false));
  EXPECT_EQ(scale.scale, 1.0);
  EXPECT_FALSE(scale.exhausted());
}

}  // namespace
}  // namespace terrace::optim
