// Products with GELU within, on a GPU against double precision.
#include "terrace/ops/products/gelu_products.h"

#include <ATen/Context.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "tests/gpu_device.h"

namespace terrace::ops {
namespace {

at::Tensor normal(at::IntArrayRef sizes, const at::Device& device, at::ScalarType type) {
  return at::randn(sizes).to(device, type);
}

double relative_error(const at::Tensor& computed, const at::Tensor& exact) {
  const at::Tensor ours = computed.to(at::kCPU, at::kDouble);
  return ours.sub(exact).norm().div(exact.norm()).item<double>();
}

struct Computed {
  at::Tensor inner, active, d_inner;
};

TEST(GeluProducts, AreNotComputedOnCpus) {
  const auto make = [](at::IntArrayRef sizes) { return normal(sizes, at::kCPU, at::kBFloat16); };
  const at::Tensor inner = make({16, 64});
  EXPECT_FALSE(linear_gelu(make({16, 32}), make({64, 32}), make({64}), inner, make({16, 64})));
  EXPECT_FALSE(linear_inputs_gelu(make({16, 32}), make({32, 64}), inner, make({16, 64})));
}

class GeluProductsOnCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!gpu_device::is_there()) GTEST_SKIP() << "no GPU";
  }
};

// In the build for AMD's GPUs all products are left to other kernels.
bool is_made() { return !at::Context::hasROCM(); }

TEST_F(GeluProductsOnCuda, AreAsExactAsSeparateKernels) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    for (const bool has_bias : {false, true}) {
      for (const int64_t rows : {1, 8, 200, 1024}) {
        SCOPED_TRACE(::testing::Message() << c10::toString(type) << (has_bias ? " bias " : " ") << rows << " rows");
        const at::Tensor x = normal({rows, 96}, at::kCUDA, type), dy = normal({rows, 96}, at::kCUDA, type);
        const at::Tensor first = normal({256, 96}, at::kCUDA, type).mul_(0.1),
                         second = normal({96, 256}, at::kCUDA, type).mul_(0.1);
        const at::Tensor bias = has_bias ? normal({256}, at::kCUDA, type) : at::Tensor();
        const auto wide = [](const at::Tensor& tensor) { return tensor.to(at::kCPU, at::kDouble); };
        Computed ours, separate, exact;
        for (at::Tensor* made : {&ours.inner, &ours.active, &ours.d_inner}) *made = at::empty({rows, 256}, x.options());
        ASSERT_EQ(linear_gelu(x, first, bias, ours.inner, ours.active), is_made());
        if (!is_made()) continue;
        ASSERT_TRUE(linear_inputs_gelu(dy, second, ours.inner, ours.d_inner));
        separate.inner = has_bias ? at::addmm(bias, x, first.t()) : at::mm(x, first.t());
        separate.active = at::gelu(separate.inner, "tanh");
        separate.d_inner = at::gelu_backward(at::mm(dy, second), ours.inner, "tanh");
        exact.inner = at::mm(wide(x), wide(first).t());
        if (has_bias) exact.inner.add_(wide(bias));
        exact.active = at::gelu(exact.inner, "tanh");
        exact.d_inner = at::gelu_backward(at::mm(wide(dy), wide(second)), wide(ours.inner), "tanh");
        EXPECT_LE(relative_error(ours.inner, exact.inner), 2 * relative_error(separate.inner, exact.inner));
        EXPECT_LE(relative_error(ours.active, exact.active), 2 * relative_error(separate.active, exact.active));
        EXPECT_LE(relative_error(ours.d_inner, exact.d_inner), 2 * relative_error(separate.d_inner, exact.d_inner));
      }
    }
  }
}

TEST_F(GeluProductsOnCuda, LeaveOtherTypesAndRowsToOtherKernels) {
  const auto computes = [](int64_t inputs, at::ScalarType type) {
    const at::Tensor inner = normal({16, 64}, at::kCUDA, type), active = at::empty_like(inner);
    return linear_gelu(normal({16, inputs}, at::kCUDA, type), normal({64, inputs}, at::kCUDA, type), {}, inner, active);
  };
  EXPECT_EQ(computes(32, at::kBFloat16), is_made());
  EXPECT_FALSE(computes(32, at::kFloat));
  EXPECT_FALSE(computes(20, at::kBFloat16));
}

}  // namespace
}  // namespace terrace::ops
