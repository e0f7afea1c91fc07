// Checks our matrix products: exact on small integers in every shape, the same bits for every division of the work, and
// bias and activation applied to a product.
#include "terrace/ops/products/products.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "terrace/ops/cpu/matmul.h"
#include "tests/ops/own_products.h"

namespace terrace::ops {
namespace {

at::Tensor normal(at::IntArrayRef shape, at::ScalarType type, uint64_t seed = 5) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::TensorOptions()).to(type);
}

// Integers so small that sums of their products are exact in fp32.
at::Tensor integers(at::IntArrayRef shape, at::ScalarType type, uint64_t seed) {
  return at::randint(-3, 4, shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::TensorOptions()).to(type);
}

class OwnProducts : public testing::OwnProductsOfType {};

void expect_exact(at::ScalarType type, int64_t rows, int64_t inputs, int64_t outputs) {
  const at::Tensor x = integers({rows, inputs}, type, 1), weight = integers({outputs, inputs}, type, 2);
  const at::Tensor dy = integers({rows, outputs}, type, 3), bias = integers({outputs}, type, 4);
  const auto in_double = [](const at::Tensor& t) { return t.to(at::kDouble); };
  const at::Tensor y = in_double(x).mm(in_double(weight).t()).add(in_double(bias));
  EXPECT_TRUE(times_transposed(x, weight, bias, Products::own).equal(y.to(type)));
  EXPECT_TRUE(times(dy, weight, Products::own).equal(in_double(dy).mm(in_double(weight)).to(type)));
  for (const at::ScalarType gradient_type : {at::kFloat, type}) {
    const at::Tensor gradient = at::zeros({outputs, inputs}, at::TensorOptions().dtype(gradient_type)).add(1);
    add_outer_product(gradient, dy, x, Products::own);
    const at::Tensor product = in_double(dy).t().mm(in_double(x));
    EXPECT_TRUE(gradient.equal(product.add(1).to(gradient_type)));
    gradient.fill_(std::numeric_limits<double>::quiet_NaN());
    add_outer_product(gradient, dy, x, Products::own, /*begins=*/true);
    EXPECT_TRUE(gradient.equal(product.to(gradient_type)));
  }
}

TEST_P(OwnProducts, ExactOnSmallIntegersInEveryShape) {
  for (const int64_t rows : {1, 6, 47, 65}) {
    for (const int64_t inputs : {1, 2, 17, 64, 129}) {
      for (const int64_t outputs : {1, 16, 63, 130}) {
        SCOPED_TRACE(::testing::Message() << rows << " x " << inputs << " -> " << outputs);
        expect_exact(GetParam(), rows, inputs, outputs);
      }
    }
  }
}

TEST_P(OwnProducts, ExactOverMoreRowsThanOnePieceOfTheSum) { expect_exact(GetParam(), 2100, 7, 9); }

// More rows and more words of k than are computed at a time.
TEST_P(OwnProducts, ExactOverSeveralBlocksOfTheSum) { expect_exact(GetParam(), 2100, 1601, 1700); }

TEST_P(OwnProducts, ExactForMoreOutputsThanOnePieceOfTheGradient) { expect_exact(GetParam(), 5, 3, 4100); }

TEST_P(OwnProducts, SameBitsHoweverTheMatrixIsCut) {
  for (const int64_t inputs : {80, 1700}) {
    const at::Tensor x = normal({96, inputs}, GetParam()), weight = normal({200, inputs}, GetParam());
    const at::Tensor whole = times_transposed(x, weight, {}, Products::own);
    for (const auto& [begin, count] : {std::pair{0, 1}, {5, 42}, {48, 48}}) {
      const at::Tensor rows = times_transposed(x.narrow(0, begin, count), weight, {}, Products::own);
      EXPECT_TRUE(rows.equal(whole.narrow(0, begin, count)));
      const at::Tensor columns = times_transposed(x, weight.narrow(0, begin, count), {}, Products::own);
      EXPECT_TRUE(columns.equal(whole.narrow(1, begin, count)));
    }
  }
}

TEST_P(OwnProducts, SameBitsOnAnyThreads) {
  const at::Tensor x = normal({300, 70}, GetParam()), dy = normal({300, 1900}, GetParam(), 6);
  const auto compute = [&](int threads) {
    at::set_num_threads(threads);
    const at::Tensor gradient = at::zeros({1900, 70});
    add_outer_product(gradient, dy, x, Products::own);
    const at::Tensor y = times(gradient.to(GetParam()), x.t().contiguous(), Products::own);
    at::set_num_threads(1);
    return std::pair{gradient, y};
  };
  const auto [gradient, y] = compute(1);
  for (const int threads : {2, 3, 5}) {
    const auto [other_gradient, other_y] = compute(threads);
    EXPECT_TRUE(other_gradient.equal(gradient)) << threads;
    EXPECT_TRUE(other_y.equal(y)) << threads;
  }
}

// The largest errors relative to double precision: of our products, and of torch's separate operations.
void expect_no_worse(const at::Tensor& ours, const at::Tensor& torchs, const at::Tensor& truth, const char* what) {
  const auto error = [&](const at::Tensor& t) { return t.to(at::kDouble).sub(truth).abs().max().item<double>(); };
  EXPECT_LE(error(ours), 2 * error(torchs)) << what;
}

TEST_P(OwnProducts, ActivationsHaveAtMostTwiceTheErrorOfTorchs) {
  const at::ScalarType type = GetParam();
  const auto in_double = [](const at::Tensor& t) { return t.to(at::kDouble); };
  for (const Activation activation : {Activation::gelu, Activation::gelu_erf, Activation::swiglu}) {
    for (const int64_t features : {31, 96, 201}) {
      SCOPED_TRACE(::testing::Message() << static_cast<int>(activation) << " " << features);
      const int64_t inner_size = activation == Activation::swiglu ? 2 * features : features;
      const at::Tensor x = normal({130, 64}, type), weight = normal({inner_size, 64}, type, 7),
                       bias = normal({inner_size}, type, 8), dy = normal({130, 64}, type, 9),
                       second = normal({64, features}, type, 10);
      const auto [inner, out] = times_transposed_activated(x, weight, bias, Products::own, activation);
      const auto [torchs_inner, torchs_out] = times_transposed_activated(x, weight, bias, Products::torch, activation);
      expect_no_worse(inner, torchs_inner, in_double(x).mm(in_double(weight).t()).add(in_double(bias)), "inner");
      // Computed from the same rounded inner values.
      expect_no_worse(out, activated(inner, activation), activated(in_double(inner), activation), "activated");
      const at::Tensor truth = activation_backward(in_double(dy).mm(in_double(second)), in_double(inner), activation);
      expect_no_worse(times_activation_backward(dy, second, inner, Products::own, activation),
                      times_activation_backward(dy, second, inner, Products::torch, activation), truth, "backward");
    }
  }
}

TEST_P(OwnProducts, GeluHasItsLimitsAndShowsANaN) {
  const at::Tensor weight = at::zeros({3, 1}, at::TensorOptions().dtype(GetParam())).add(1);
  at::Tensor x = at::zeros({3, 1}, at::TensorOptions().dtype(GetParam()));
  x[0] = 1000;
  x[1] = -1000;
  x[2] = std::nan("");
  const auto [inner, out] = times_transposed_activated(x, weight, {}, Products::own, Activation::gelu);
  EXPECT_EQ(out[0][0].item<double>(), 1000);
  EXPECT_NEAR(out[1][0].item<double>(), 0, 1e-30);
  EXPECT_TRUE(std::isnan(out[2][0].item<double>()));
  const at::Tensor slope =
      times_activation_backward(weight, weight.t().contiguous(), inner, Products::own, Activation::gelu);
  EXPECT_EQ(slope[0][0].item<double>(), 1);
  EXPECT_NEAR(slope[1][0].item<double>(), 0, 1e-25);
}

TEST_P(OwnProducts, SwigluHasItsLimitsAndShowsANaN) {
  const auto one = at::zeros({1, 1}, at::TensorOptions().dtype(GetParam())).add(1);
  const at::Tensor weight = at::zeros({2, 1}, one.options()).add(1);
  const auto found = [&](double x) {
    const auto [inner, out] = times_transposed_activated(one.mul(x), weight, {}, Products::own, Activation::swiglu);
    const at::Tensor slopes = times_activation_backward(one, one, inner, Products::own, Activation::swiglu);
    return std::array{out.item<double>(), slopes[0][0].item<double>(), slopes[0][1].item<double>()};
  };
  EXPECT_EQ(found(64), (std::array{4096.0, 64.0, 64.0}));
  for (const double number : found(-64)) EXPECT_NEAR(number, 0, 1e-20);
  for (const double number : found(std::nan(""))) EXPECT_TRUE(std::isnan(number));
}

INSTANTIATE_TEST_SUITE_P(Types, OwnProducts, ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& type) { return std::string(c10::toString(type.param)); });

}  // namespace
}  // namespace terrace::ops
