// Checks the names and order of parameters, their initial values and their gradient buffers.
#include "terrace/nn/module.h"

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "terrace/nn/layers.h"

namespace terrace::nn {
namespace {

struct Pair : Module {
  explicit Pair(const Build& build)
      : first(add_module<Linear>("first", 3, 5, true, InitialValue::normal(0.02), build)),
        scale(add_parameter("scale", {5}, InitialValue::constant(2.0), false, build)),
        second(add_module<Linear>("second", 5, 7, false, InitialValue::normal(0.5), build)) {}
  Linear& first;
  Parameter& scale;
  Linear& second;
};

struct Tower : Module {
  explicit Tower(const Build& build)
      : lower(add_module<Pair>("floors.0", build)), upper(add_module<Pair>("floors.1", build)) {}
  Pair &lower, &upper;
};

std::vector<std::string> names_of(Module& module) {
  std::vector<std::string> names;
  for (const Parameter* parameter : module.parameters()) names.push_back(parameter->name);
  return names;
}

TEST(Module, ParametersHaveDottedNamesInOrderOfRegistration) {
  Tower tower({});
  EXPECT_EQ(names_of(tower),
            (std::vector<std::string>{"floors.0.first.weight", "floors.0.first.bias", "floors.0.scale",
                                      "floors.0.second.weight", "floors.1.first.weight", "floors.1.first.bias",
                                      "floors.1.scale", "floors.1.second.weight"}));
  EXPECT_EQ(names_of(tower.upper), (std::vector<std::string>{"floors.1.first.weight", "floors.1.first.bias",
                                                             "floors.1.scale", "floors.1.second.weight"}));
  EXPECT_EQ(tower.parameters()[3], &tower.lower.second.weight);
}

TEST(Module, DecaysMatricesOnly) {
  Tower tower({});
  for (const Parameter* parameter : tower.parameters()) {
    EXPECT_EQ(parameter->decay, parameter->value.dim() == 2) << parameter->name;
  }
}

TEST(Initialize, DependsOnSeedAndNameOnly) {
  Tower tower({}), other({}), elsewhere({});
  initialize(tower.parameters(), 1);
  at::set_num_threads(3);
  initialize(other.parameters(), 1);
  at::set_num_threads(1);
  initialize(elsewhere.parameters(), 2);
  for (size_t i = 0; i < tower.parameters().size(); ++i) {
    EXPECT_TRUE(tower.parameters()[i]->value.equal(other.parameters()[i]->value));
  }
  EXPECT_FALSE(tower.lower.first.weight.value.equal(elsewhere.lower.first.weight.value));
  EXPECT_FALSE(tower.lower.first.weight.value.equal(tower.upper.first.weight.value));
  EXPECT_EQ(tower.lower.first.bias->value.abs().max().item<double>(), 0.0);
  EXPECT_TRUE(tower.lower.scale.value.equal(at::ones({5}).mul(2)));
}

TEST(Initialize, ABf16ModelStartsFromTheRoundedValues) {
  Pair wide({}), narrow({.type = at::kBFloat16});
  initialize(wide.parameters(), 4);
  initialize(narrow.parameters(), 4);
  EXPECT_TRUE(narrow.first.weight.value.equal(wide.first.weight.value.to(at::kBFloat16)));
  EXPECT_TRUE(initial_value(narrow.first.weight, 4, at::kFloat).equal(wide.first.weight.value));
}

TEST(Initialize, AShardStartsFromItsPartOfTheWhole) {
  Pair whole({}), part({});
  initialize(whole.parameters(), 4);
  Parameter& shard = part.second.weight;
  shard.value = at::zeros({7, 2}).set_requires_grad(true);
  shard.mark = ParamMark::sharded({7, 5}, 1, "tensor");
  shard.mark.row_ranges = {{.begin = 2, .size = 2}};
  initialize({&shard}, 4);
  EXPECT_TRUE(shard.value.equal(whole.second.weight.value.narrow(1, 2, 2)));
}

// A shard of each kind of initial value is the part of the whole, of which the marks say where it lies.
TEST(Initialize, EveryKindOfValueIsAFunctionOfTheGlobalIndex) {
  const at::Tensor table = at::arange(35, at::TensorOptions(at::kDouble)).mul(0.1).sin();
  const auto sines = [](int64_t begin, int64_t end) {
    return at::arange(begin, end, at::TensorOptions(at::kDouble)).mul(0.1).sin();
  };
  for (const InitialValue& initial :
       {InitialValue::constant(3), InitialValue::normal(0.5), InitialValue::truncated_normal(0.5),
        InitialValue::uniform(-1, 2), InitialValue::opposite_rows(1, 5), InitialValue::table(table.view({7, 5})),
        InitialValue::table(sines)}) {
    Linear whole(5, 7, false, initial, {}), part(5, 7, false, initial, {});
    initialize(whole.parameters(), 4);
    if (initial.kind == InitialValue::Kind::table) {
      EXPECT_TRUE(whole.weight.value.equal(table.view({7, 5}).to(at::kFloat)));
    }
    EXPECT_TRUE(initial_value(whole.weight, 4, at::kFloat, 9, 23).equal(whole.weight.value.flatten().narrow(0, 9, 14)));
    part.weight.value = at::zeros({7, 2}).set_requires_grad(true);
    part.weight.mark = ParamMark::sharded({7, 5}, 1, "tensor");
    part.weight.mark.row_ranges = {{.begin = 2, .size = 2}};
    initialize(part.parameters(), 4);
    EXPECT_TRUE(part.weight.value.equal(whole.weight.value.narrow(1, 2, 2)));
  }
}

TEST(Initialize, OppositeRowsFollowEachOther) {
  Linear linear(5, 7, false, InitialValue::opposite_rows(0.5, 5), {});
  initialize(linear.parameters(), 4);
  const at::Tensor rows = linear.weight.value.detach();
  for (const int64_t even : {0, 2, 4}) EXPECT_TRUE(rows[even + 1].equal(rows[even].neg())) << even;
  EXPECT_FALSE(rows[2].equal(rows[0]));
  EXPECT_LE(rows.abs().max().item<float>(), 0.5F);
  EXPECT_GT(rows.abs().max().item<float>(), 0.3F);
}

struct Counting : Module {
  explicit Counting(const Build& build)
      : mean(add_buffer("mean", {3}, InitialValue::uniform(0, 1), build)),
        scale(add_parameter("scale", {3}, InitialValue::constant(2.0), false, build.in_fp32())) {}
  Buffer& mean;
  Parameter& scale;
};

struct TwoCounters : Module {
  explicit TwoCounters(const Build& build)
      : first(add_module<Counting>("first", build)), second(add_module<Counting>("second", build)) {}
  Counting &first, &second;
};

TEST(Module, BuffersAreNoParametersAndFp32) {
  TwoCounters bf16({.type = at::kBFloat16}), fp64({.type = at::kDouble});
  EXPECT_EQ(names_of(bf16), (std::vector<std::string>{"first.scale", "second.scale"}));
  ASSERT_EQ(bf16.buffers().size(), 2u);
  EXPECT_EQ(bf16.buffers()[1], &bf16.second.mean);
  EXPECT_EQ(bf16.second.mean.name, "second.mean");
  EXPECT_FALSE(bf16.first.mean.value.requires_grad());
  EXPECT_EQ(bf16.first.mean.value.scalar_type(), at::kFloat);
  EXPECT_EQ(bf16.first.scale.value.scalar_type(), at::kFloat);
  EXPECT_EQ(fp64.first.scale.value.scalar_type(), at::kDouble);
  initialize(bf16.buffers(), 3);
  initialize(fp64.buffers(), 3);
  EXPECT_TRUE(bf16.first.mean.value.equal(fp64.first.mean.value.to(at::kFloat)));
  EXPECT_FALSE(bf16.first.mean.value.equal(bf16.second.mean.value));
  TwoCounters unallocated({.allocate = false});
  EXPECT_TRUE(unallocated.first.mean.value.is_meta());
}

TEST(Gradients, AllocatedZeroedAndCollected) {
  Pair pair({.type = at::kBFloat16});
  const auto parameters = pair.parameters();
  initialize(parameters, 1);
  allocate_gradients(parameters, at::kFloat);
  for (const Parameter* parameter : parameters) {
    EXPECT_EQ(parameter->gradient.scalar_type(), at::kFloat);
    EXPECT_EQ(parameter->gradient.sizes(), parameter->value.sizes());
    EXPECT_EQ(parameter->gradient.abs().max().item<double>(), 0.0);
  }
  for (int pass = 1; pass <= 2; ++pass) {
    pair.scale.value.mul(3.0).sum().backward();
    collect_autograd_gradients(parameters);
    EXPECT_FALSE(pair.scale.value.grad().defined());
    EXPECT_TRUE(pair.scale.gradient.equal(at::ones({5}).mul(3.0 * pass)));
  }
  zero_gradients(parameters);
  EXPECT_EQ(pair.scale.gradient.abs().max().item<double>(), 0.0);
}

// A gradient without a sum counts as zero whatever memory holds: poison in it must not be seen.
TEST(Gradients, FirstSumOverwritesWhatMemoryHolds) {
  Pair pair({});
  Embedding rows(4, 3, 4, InitialValue::normal(1.0), {});
  std::vector<Parameter*> parameters = pair.parameters();
  parameters.push_back(&rows.weight);
  initialize(parameters, 1);
  allocate_gradients(parameters, at::kFloat);
  for (const Parameter* parameter : parameters) clear_gradient(*parameter, /*poison=*/true);
  const at::Tensor indices = at::ones({2, 1}).to(at::kLong);  // both of row 1
  for (int pass = 1; pass <= 2; ++pass) {
    const at::Tensor x = rows.forward(indices, "index");
    pair.first.forward(x).sum().backward();
    collect_autograd_gradients(parameters);
    const at::Tensor x_of_all = rows.weight.value.detach()[1].mul(2.0 * pass).expand({5, 3});
    EXPECT_TRUE(pair.first.weight.gradient.allclose(x_of_all));
    const at::Tensor of_row = pair.first.weight.value.detach().sum(0).mul(2.0 * pass);
    EXPECT_TRUE(rows.weight.gradient[1].allclose(of_row));
    EXPECT_EQ(rows.weight.gradient[0].abs().max().item<double>(), 0.0);
    EXPECT_EQ(pair.second.weight.gradient.abs().max().item<double>(), 0.0);  // which nothing used
  }
}

TEST(Build, MetaDeviceHasShapesOnly) {
  Linear huge(1'000'000, 1'000'000, true, InitialValue::normal(0.02), {.device = at::kMeta});
  EXPECT_EQ(huge.weight.value.numel(), 1'000'000'000'000);
}

}  // namespace
}  // namespace terrace::nn
