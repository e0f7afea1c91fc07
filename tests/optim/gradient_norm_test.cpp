// Checks that the gradient norm is exact on integers, independent of threads, and names the first bad parameter.
#include "terrace/optim/gradient_norm.h"

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <limits>

#include "terrace/comm/threads/threads.h"
#include "terrace/mesh/group.h"
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
}

// Numbers of many sizes, so that sums in other orders would be rounded otherwise.
std::vector<at::Tensor> many_gradients() {
  std::vector<at::Tensor> all;
  for (const int64_t size : {1, 1023, 1024, 3000, 7, 2048, 5000}) {
    at::Tensor gradient = at::arange(size, at::kFloat).add_(1).reciprocal_();
    all.push_back(gradient.mul_(std::pow(10.0, static_cast<double>(all.size() % 3) * 2)));
  }
  return all;
}

// Rank r of `ranks` has every parameter whose number is r modulo the ranks, among data-parallel or model-parallel
// ranks.
double norm_of_divided(int64_t ranks, bool model_parallel) {
  double norm = 0;
  comm::run_threads(ranks, {.timeout_seconds = 60}, [&](comm::World& world) {
    const auto all = world.connect(mesh::all_ranks("all", ranks));
    const auto own = world.connect({.name = "own", .ranks = {world.rank()}});
    const std::vector<at::Tensor> gradients = many_gradients();
    std::deque<nn::Parameter> parameters;
    std::vector<nn::Parameter*> pointers;
    for (size_t i = static_cast<size_t>(world.rank()); i < gradients.size(); i += static_cast<size_t>(ranks)) {
      parameters.push_back(parameter_with("p" + std::to_string(i), gradients[i]));
      parameters.back().value = gradients[i];
      parameters.back().mark = ParamMark::replicated(gradients[i].sizes().vec());
      pointers.push_back(&parameters.back());
    }
    comm::Comm &everyone = model_parallel ? *own : *all, &model = model_parallel ? *all : *own;
    const double found = gradient_norm(whole_parameters(pointers), everyone, model).norm;
    if (world.rank() == 0) norm = found;
  });
  return norm;
}

TEST(GradientNorm, SameBitsHoweverPiecesAreDivided) {
  const double one = norm_of_divided(1, false);
  for (const int64_t ranks : {2, 3, 4, 7}) {
    EXPECT_EQ(norm_of_divided(ranks, false), one) << ranks;
    EXPECT_EQ(norm_of_divided(ranks, true), one) << ranks;
  }
}

// A shard of three parameters with padding between, of which the second is a copy that another rank counts. Squares of
// 1 to 4: all places of the ranges within pieces.
TEST(GradientNorm, LeavesOutUncountedPartsOfAShard) {
  for (const int64_t copied : {1, 300, 1024, 2500}) {
    nn::Parameter first = parameter_with("first", {}), copy = parameter_with("copy", {}),
                  last = parameter_with("last", {});
    first.mark = ParamMark::replicated({700});
    copy.mark = ParamMark::replicated({copied});
    copy.mark.counted = false;
    last.mark = ParamMark::replicated({900});
    Shard shard;
    const int64_t copy_at = 704, last_at = copy_at + copied + 4, size = 2 * norm_piece + last_at;
    shard.gradient = at::zeros({size});
    shard.gradient.narrow(0, 0, 700).fill_(2);
    shard.gradient.narrow(0, copy_at, copied).fill_(3);
    shard.gradient.narrow(0, last_at, 900).fill_(4);
    shard.own_end = size;
    shard.pieces = {{&first, 0, 700, 0}, {&copy, 0, copied, copy_at}, {&last, 0, 900, last_at}};
    const auto world = comm::make_solo_world();
    const auto group = world->connect({.name = "data", .ranks = {0}});
    EXPECT_EQ(gradient_norm({shard}, *group, *group).norm, std::sqrt(700 * 4.0 + 900 * 16.0)) << copied;
    shard.gradient[copy_at].fill_(std::nan(""));
    EXPECT_TRUE(std::isfinite(gradient_norm({shard}, *group, *group).norm)) << copied;
    shard.gradient[last_at].fill_(std::nan(""));
    EXPECT_EQ(gradient_norm({shard}, *group, *group).first_bad, "last") << copied;
  }
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
