// Checks the layers of all experts against each expert alone in double precision, for loads as uneven as they come.
#include "terrace/ops/experts/expert_feed_forward.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "terrace/ops/experts/expert_products.h"
#include "terrace/ops/products/products.h"
#include "tests/pytorch/judge.h"

namespace terrace::ops {
namespace {

using Named = std::map<std::string, at::Tensor>;

struct ExpertsCase {
  ExpertOffsets offsets;
  int64_t width, features;
  Activation activation;
  bool weighted;

  int64_t rows() const { return offsets.back(); }
  int64_t experts() const { return static_cast<int64_t>(offsets.size()) - 1; }
};

ExpertOffsets offsets_of(const std::vector<int64_t>& counts) {
  ExpertOffsets offsets = {0};
  for (const int64_t count : counts) offsets.push_back(offsets.back() + count);
  return offsets;
}

// The values of a case and the gradient of its result, in double; `scaled` so that sums keep a size of about 1.
Named inputs_of(const ExpertsCase& c, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const auto normal = [&](at::IntArrayRef shape, double size) {
    return at::randn(shape, generator, at::TensorOptions().dtype(at::kDouble))
        .mul(size)
        .to(at::kBFloat16)
        .to(at::kDouble);
  };
  const int64_t inner = c.features * (c.activation == Activation::swiglu ? 2 : 1);
  return {{"x", normal({c.rows(), c.width}, 1)},
          {"p", normal({c.rows()}, 1)},
          {"first", normal({c.experts(), inner, c.width}, 1 / std::sqrt(static_cast<double>(c.width)))},
          {"second", normal({c.experts(), c.width, c.features}, 1 / std::sqrt(static_cast<double>(c.features)))},
          {"dy", normal({c.rows(), c.width}, 1)}};
}

at::Tensor leaf_of(const at::Tensor& value, at::ScalarType type) {
  return value.to(type, /*non_blocking=*/false, /*copy=*/true).set_requires_grad(true);
}

at::Tensor activated_by_torch(const at::Tensor& inner, Activation activation) {
  if (activation != Activation::swiglu) return at::gelu(inner, activation == Activation::gelu ? "tanh" : "none");
  const at::Tensor pairs = inner.unflatten(1, {-1, 2});
  return at::silu(pairs.select(2, 0)).mul(pairs.select(2, 1));
}

// Expert after expert by operations of torch, with its derivatives.
Named by_torch(const ExpertsCase& c, const Named& inputs, at::ScalarType type) {
  const at::ScalarType computing = type == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor x = leaf_of(inputs.at("x"), type), p = leaf_of(inputs.at("p"), computing);
  const at::Tensor first = leaf_of(inputs.at("first"), type), second = leaf_of(inputs.at("second"), type);
  // One by one, since the gradient of a selection is as large as all weights.
  const std::vector<at::Tensor> firsts = first.unbind(), seconds = second.unbind();
  std::vector<at::Tensor> results;
  for (int64_t e = 0; e < c.experts(); ++e) {
    const int64_t begin = c.offsets[static_cast<size_t>(e)], count = c.offsets[static_cast<size_t>(e) + 1] - begin;
    at::Tensor active = activated_by_torch(at::linear(x.narrow(0, begin, count), firsts[e]), c.activation);
    if (c.weighted) active = active.mul(p.narrow(0, begin, count).unsqueeze(1)).to(type);
    results.push_back(at::linear(active, seconds[e]));
  }
  const at::Tensor y = at::cat(results);
  torch::autograd::backward({y}, {inputs.at("dy").to(type)});
  Named all = {{"y", y.detach()}, {"dx", x.grad()}, {"first", first.grad()}, {"second", second.grad()}};
  if (c.weighted) all["dp"] = p.grad();
  return all;
}

Named by_us(const ExpertsCase& c, const Named& inputs, at::ScalarType type, at::ScalarType gradient_type,
            Products products = Products::own, WeightGradientQueue* deferred = nullptr) {
  const at::ScalarType computing = type == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor x = leaf_of(inputs.at("x"), type), p = leaf_of(inputs.at("p"), computing);
  const auto weight = [&](const char* name) {
    const at::Tensor value = leaf_of(inputs.at(name), type);
    return Weight{value, at::zeros(value.sizes(), at::TensorOptions().dtype(gradient_type)),
                  ProductChoice::all(products)};
  };
  const ExpertWeights weights{weight("first"), weight("second")};
  const at::Tensor y =
      expert_feed_forward(x, c.weighted ? p : at::Tensor(), c.offsets, weights, c.activation, deferred);
  torch::autograd::backward({y}, {inputs.at("dy").to(type)});
  EXPECT_FALSE(weights.first.value.grad().defined());
  Named all = {
      {"y", y.detach()}, {"dx", x.grad()}, {"first", weights.first.gradient}, {"second", weights.second.gradient}};
  if (c.weighted) all["dp"] = p.grad();
  return all;
}

// 4 to 64 experts of which some have no rows, odd widths, and all rows at one expert.
std::vector<ExpertsCase> drawn_cases(Activation activation) {
  std::mt19937 draw(7);
  const auto number = [&](int64_t low, int64_t high) { return low + static_cast<int64_t>(draw() % (high - low + 1)); };
  std::vector<ExpertsCase> cases;
  for (const int64_t experts : {4, 8, 64}) {
    std::vector<int64_t> counts;
    for (int64_t e = 0; e < experts; ++e) counts.push_back(number(0, 2) == 0 ? 0 : number(1, 200 / experts + 5));
    cases.push_back({offsets_of(counts), number(1, 90), number(1, 90), activation, true});
  }
  cases.push_back({offsets_of({0, 0, 67, 0}), 33, 47, activation, true});
  cases.push_back({offsets_of({13, 1, 30}), 64, 32, activation, false});
  return cases;
}

class ExpertsOfType : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { at::set_num_threads(2); }
  void TearDown() override { at::set_num_threads(1); }
};

TEST_P(ExpertsOfType, AreAsAccurateAsExpertAfterExpertOfTorch) {
  const at::ScalarType type = GetParam();
  testing::ErrorTally tally(type);
  for (const Activation activation : {Activation::gelu, Activation::swiglu, Activation::gelu_erf}) {
    for (const ExpertsCase& c : drawn_cases(activation)) {
      const Named inputs = inputs_of(c, 3);
      at::set_num_threads(1);
      const Named exact = by_torch(c, inputs, at::kDouble), theirs = by_torch(c, inputs, type);
      at::set_num_threads(2);
      const at::ScalarType wide = type == at::kDouble ? at::kDouble : at::kFloat;
      const Named ours = by_us(c, inputs, type, wide);
      for (const auto& [name, truth] : exact) tally.add(name, ours.at(name), theirs.at(name), truth);
    }
  }
  tally.expect_as_accurate();
}

INSTANTIATE_TEST_SUITE_P(Types, ExpertsOfType, ::testing::Values(at::kDouble, at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& type) { return std::string(c10::toString(type.param)); });

// Uneven enough that some experts are divided among threads, and others are not.
ExpertsCase uneven_case(Activation activation) {
  return {offsets_of({150, 0, 3, 41, 260, 1, 0, 90}), 100, 120, activation, true};
}

TEST(Experts, HaveTheSameBitsOnAnyThreads) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    if (!own_products(at::zeros({1, 1}, type), Products::own)) continue;  // torch's bits depend on threads
    for (const Activation activation : {Activation::gelu, Activation::swiglu}) {
      const ExpertsCase c = uneven_case(activation);
      const Named inputs = inputs_of(c, 4);
      at::set_num_threads(1);
      const Named alone = by_us(c, inputs, type, type);
      for (const int threads : {2, 3, 7}) {
        at::set_num_threads(threads);
        for (const auto& [name, result] : by_us(c, inputs, type, type)) {
          EXPECT_TRUE(result.equal(alone.at(name))) << name << " on " << threads;
        }
      }
    }
  }
  at::set_num_threads(1);
}

// The rows of one expert have the bits of the products of a layer.
TEST(Experts, HaveTheBitsOfEachExpertAlone) {
  at::set_num_threads(2);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    if (!own_products(at::zeros({1, 1}, type), Products::own)) continue;
    const ExpertsCase c = uneven_case(Activation::swiglu);
    const Named inputs = inputs_of(c, 5);
    const at::Tensor x = inputs.at("x").to(type), first = inputs.at("first").to(type), dy = inputs.at("dy").to(type);
    const at::Tensor y = experts_times_transposed(x, c.offsets, first, Products::own);
    const at::Tensor dx = experts_times(y, c.offsets, first, Products::own);
    const ActivatedRows rows = experts_activated(x, {}, c.offsets, first, c.activation, Products::own);
    const at::Tensor gradient = at::zeros(first.sizes());
    experts_add_outer_products(gradient, y, x, c.offsets, Products::own, false);
    for (int64_t e = 0; e < c.experts(); ++e) {
      const int64_t begin = c.offsets[static_cast<size_t>(e)], count = c.offsets[static_cast<size_t>(e) + 1] - begin;
      const auto of = [&](const at::Tensor& t) { return t.narrow(0, begin, count); };
      EXPECT_TRUE(of(y).equal(times_transposed(of(x), first[e], {}, Products::own)));
      EXPECT_TRUE(of(dx).equal(times(of(y), first[e], Products::own)));
      const auto [inner, active] = times_transposed_activated(of(x), first[e], {}, Products::own, c.activation);
      EXPECT_TRUE(of(rows.inner).equal(inner));
      EXPECT_TRUE(of(rows.active).equal(active));
      const at::Tensor own = at::zeros(first[e].sizes());
      add_outer_product(own, of(y), of(x), Products::own);
      EXPECT_TRUE(gradient[e].equal(own));
    }
  }
  at::set_num_threads(1);
}

TEST(Experts, AddToTheirGradientsOrBeginThem) {
  const ExpertsCase c = uneven_case(Activation::gelu);
  const Named inputs = inputs_of(c, 6);
  for (const Products products : {Products::own, Products::torch}) {
    const at::Tensor x = inputs.at("x").to(at::kFloat), dy = inputs.at("dy").to(at::kFloat);
    const at::Tensor once = at::zeros({c.experts(), c.width, c.width}), twice = at::zeros(once.sizes());
    experts_add_outer_products(once, dy, x, c.offsets, products, false);
    experts_add_outer_products(twice, dy, x, c.offsets, products, false);
    experts_add_outer_products(twice, dy, x, c.offsets, products, false);
    // Ours add a finished sum, torch's may add to the buffer as they go.
    const bool ours = own_products(x, products);
    const double tolerance = ours ? 0 : 1e-5;
    EXPECT_TRUE(twice.allclose(once.mul(2), tolerance, tolerance));
    EXPECT_EQ(once[1].abs().max().item<double>(), 0) << "an expert without rows";
    twice.fill_(std::numeric_limits<double>::quiet_NaN());
    experts_add_outer_products(twice, dy, x, c.offsets, products, true);
    EXPECT_TRUE(twice.allclose(once, tolerance, tolerance));
  }
}

TEST(Experts, DeferTheirWeightGradients) {
  const ExpertsCase c = uneven_case(Activation::swiglu);
  const Named inputs = inputs_of(c, 7);
  WeightGradientQueue queue;
  const Named now = by_us(c, inputs, at::kBFloat16, at::kFloat);
  const Named later = by_us(c, inputs, at::kBFloat16, at::kFloat, Products::own, &queue);
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_EQ(later.at("first").abs().max().item<double>(), 0);
  queue.run();
  for (const auto& [name, result] : now) EXPECT_TRUE(result.equal(later.at(name))) << name;
}

TEST(Experts, WithoutAnyRowsGiveNone) {
  const ExpertsCase c{offsets_of({0, 0, 0}), 5, 7, Activation::swiglu, true};
  const Named results = by_us(c, inputs_of(c, 8), at::kFloat, at::kFloat);
  EXPECT_EQ(results.at("y").size(0), 0);
  EXPECT_EQ(results.at("first").abs().max().item<double>(), 0);
  EXPECT_EQ(results.at("second").abs().max().item<double>(), 0);
}

}  // namespace
}  // namespace terrace::ops
