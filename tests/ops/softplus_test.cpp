// The softplus is as accurate as torch's in each type, and its derivatives are torch's.
#include "terrace/ops/elements/softplus.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

namespace terrace::ops {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Inputs that fill several vectors and a rest, and reach beyond where the exponential is 0 or infinite in fp32.
at::Tensor values(at::ScalarType type) {
  const at::Tensor moderate = at::linspace(-20, 20, 1237, at::kDouble);
  return at::cat({moderate, at::tensor({-1e4, -100.0, -87.5, 88.5, 100.0, 1e4}, at::kDouble)}).to(type);
}

double largest_error(const at::Tensor& got, const at::Tensor& exact) {
  return got.to(at::kDouble).sub(exact).abs().max().item<double>();
}

TEST(Softplus, IsAsAccurateAsTorchsInEachType) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
    for (const double shift : {0.0, std::numbers::ln2}) {
      const at::Tensor x = values(type), exact = at::softplus(x.to(at::kDouble)).sub(shift);
      const double rounding = type == at::kDouble ? 4e-15 : 0x1p-24;  // of the results between 0 and 20
      EXPECT_LE(largest_error(ops::softplus(x, shift), exact),
                2 * largest_error(at::softplus(x).sub(shift), exact) + rounding)
          << at::toString(type) << " " << shift;
    }
  }
}

TEST(Softplus, ContinuesToTheEndsOfTheNumbers) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const at::Tensor y = ops::softplus(at::tensor({-infinity, infinity, std::nan("")}, at::kDouble).to(type));
    EXPECT_NEAR(y[0].item<double>(), 0, 1e-37);
    EXPECT_EQ(y[1].item<double>(), infinity);
    EXPECT_TRUE(std::isnan(y[2].item<double>()));
  }
}

TEST(Softplus, FirstAndSecondDerivativesAreTorchs) {
  const auto derivatives = [](const std::function<at::Tensor(const at::Tensor&)>& function) {
    const at::Tensor x = at::linspace(-24, 24, 60, at::kDouble).set_requires_grad(true);
    const at::Tensor first = torch::autograd::grad({function(x).square().sum()}, {x}, {}, true, true)[0];
    const at::Tensor second = torch::autograd::grad({first.square().sum()}, {x})[0];
    return at::cat({first.detach(), second});
  };
  const at::Tensor expected = derivatives([](const at::Tensor& x) { return at::softplus(x); });
  const at::Tensor got = derivatives([](const at::Tensor& x) { return ops::softplus(x, 0); });
  EXPECT_LT(got.sub(expected).abs().div(expected.abs().add(1)).max().item<double>(), 1e-12);
}

}  // namespace
}  // namespace terrace::ops
