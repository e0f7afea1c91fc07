// Compares the router with those of the five published families as transformers computes them: the same experts, and
// weights that are equal to rounding in fp32.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "terrace/ops/experts/router.h"
#include "tests/pytorch/reference.h"

namespace terrace::ops {
namespace {

struct FamilyOfRouters {
  const char* name;
  int64_t experts;
  RouterSettings settings;
};

const FamilyOfRouters families_of_routers[] = {
    {"mixtral", 8, {.experts_per_token = 2, .normalised = true}},
    {"qwen2_moe", 14, {.experts_per_token = 4}},
    {"qwen3_moe", 16, {.experts_per_token = 5, .normalised = true}},
    {"olmoe", 9, {.experts_per_token = 3}},
    {"deepseek_v3",
     24,
     {.experts_per_token = 6,
      .scores = RouterScores::sigmoid,
      .normalised = true,
      .factor = 2.5,
      .groups = 8,
      .groups_kept = 4}},
};

// One test, since each test is a process and Python takes seconds to start.
TEST(RouterAgainstTransformers, FiveFamiliesChooseTheSameExpertsWithTheSameWeights) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(31);
  for (const FamilyOfRouters& family : families_of_routers) {
    SCOPED_TRACE(family.name);
    const RouterSettings& settings = family.settings;
    const bool grouped = settings.groups > 1;
    const at::Tensor x = at::randn({150, 29}, generator, at::TensorOptions());
    const at::Tensor router = at::randn({family.experts, 29}, generator, at::TensorOptions()).div(5);
    // Positive, since transformers masks other groups with 0.
    const at::Tensor bias = at::rand({family.experts}, generator, at::TensorOptions());
    const Json options = {{"family", family.name},
                          {"experts", family.experts},
                          {"k", settings.experts_per_token},
                          {"normalised", settings.normalised},
                          {"factor", settings.factor},
                          {"groups", settings.groups},
                          {"groups_kept", settings.groups_kept}};
    testing::Tensors inputs = {{"x", x}, {"router", router}};
    if (grouped) inputs["bias"] = bias;
    const at::Tensor theirs =
        testing::shared_pytorch()
            .run("ops/router_cases.py", grouped ? "deepseek_v3" : "block", options, at::kFloat, inputs)
            .theirs.at("weights");
    const Routing routing = route(x, {router, {}}, grouped ? bias : at::Tensor(), settings);
    const at::Tensor ours =
        at::zeros({150, family.experts}).scatter(1, routing.choice.experts.to(at::kLong), routing.weights.detach());
    EXPECT_TRUE(ours.ne(0).equal(theirs.ne(0)));
    EXPECT_EQ(theirs.ne(0).sum().item<int64_t>(), 150 * settings.experts_per_token);
    // Sums of 29 products in another order, and some twenty roundings after them.
    EXPECT_LE(ours.sub(theirs).abs().max().item<double>(), 50 * 0x1p-24 * settings.factor);
  }
}

}  // namespace
}  // namespace terrace::ops
