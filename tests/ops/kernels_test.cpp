// Checks all kernels: sums that do not depend on threads, mixed types, and the error for a device without kernels.
#include "terrace/ops/kernels.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <functional>

#include "terrace/base/error.h"

namespace terrace::ops {
namespace {

at::Tensor normal(at::IntArrayRef shape) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(6);
  return at::randn(shape, generator, at::TensorOptions());
}

void expect_equal_for_any_threads(const std::function<std::vector<at::Tensor>()>& compute) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto alone = compute();
  for (int count : {2, 3}) {
    at::set_num_threads(count);
    const auto together = compute();
    for (size_t i = 0; i < alone.size(); ++i) EXPECT_TRUE(together[i].equal(alone[i])) << i << " with " << count;
  }
  at::set_num_threads(threads);
}

TEST(Kernels, SumsDoNotDependOnTheThreads) {
  const at::Tensor from = normal({777, 513}), weight = normal({513});
  const at::Tensor indices = at::randint(0, 10, {777}, at::TensorOptions().dtype(at::kLong));
  expect_equal_for_any_threads([&] {
    at::Tensor columns = at::zeros({513}), rows = at::zeros({10, 513});
    cpu_kernels().add_column_sums(columns, from);
    cpu_kernels().add_rows(rows, indices, from);
    return std::vector{columns, rows};
  });
  expect_equal_for_any_threads([&] {
    const NormShape shape;
    const at::Tensor y = at::empty_like(from), mean = at::empty({777}), inverse = at::empty({777});
    const at::Tensor dx = at::empty_like(from), weights = at::zeros({513}), biases = at::zeros({513});
    const at::Tensor sum = at::empty_like(from);
    cpu_kernels().norm(shape, {from, from, weight, weight, sum, y, mean, inverse});
    cpu_kernels().norm_backward(shape, {y, from, sum, weight, mean, inverse, dx, weights, biases});
    return std::vector{sum, y, dx, weights, biases};
  });
}

TEST(Kernels, AddAcrossTypes) {
  const at::Tensor from = normal({1001}), start = normal({1001}).add(1.0);
  for (at::ScalarType into_type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
    for (at::ScalarType from_type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
      const at::Tensor into = start.to(into_type), exact = into.to(at::kDouble).add(from.to(from_type));
      cpu_kernels().add(into, from.to(from_type));
      // The sum is computed in fp32 (double for double) and rounded to the type once.
      const bool in_double = into_type == at::kDouble || from_type == at::kDouble;
      const at::Tensor expected = in_double ? exact : exact.to(at::kFloat);
      EXPECT_TRUE(into.equal(expected.to(into_type))) << into_type << " += " << from_type;
    }
  }
}

TEST(Kernels, RefusesADeviceThatThisBuildLacks) {
  EXPECT_THROW(kernels(at::Device(at::kMeta)), UserError);
  try {
    // A build with CUDA has a table for the device.
    EXPECT_NE(&kernels(at::Device(at::kCUDA)), &cpu_kernels());
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("preset cuda"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace terrace::ops
