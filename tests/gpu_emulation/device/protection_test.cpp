// The host cannot touch memory of the emulated device; kernels, copies and torch's operations on it can.
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "terrace/ops/kernels.h"
#include "tests/gpu_emulation/device/device_memory.h"

namespace gpu_emulation {
namespace {

const at::Device gpu(at::kCUDA, 1);

at::Tensor on_gpu(const at::Tensor& tensor) { return tensor.to(gpu); }

TEST(ProtectedMemoryDeathTest, TheHostsReadsAndWritesEndTheProcess) {
  const at::Tensor ones = at::ones({3}, gpu);
  EXPECT_TRUE(is_on_device(ones.const_data_ptr()));
  EXPECT_DEATH(static_cast<void>(*static_cast<const volatile float*>(ones.const_data_ptr())),
               "the host accesses memory of the GPU");
  EXPECT_DEATH(std::memset(ones.mutable_data_ptr(), 0, 12), "the host accesses memory of the GPU");
}

TEST(ProtectedMemoryDeathTest, StaysProtectedAfterAKernel) {
  const at::Tensor sum = at::ones({1000}, gpu), added = at::ones({1000}, gpu);
  terrace::ops::kernels(gpu).add(sum, added);
  EXPECT_TRUE(sum.cpu().eq(2).all().item<bool>());
  EXPECT_DEATH(static_cast<void>(*static_cast<const volatile float*>(sum.const_data_ptr())),
               "the host accesses memory of the GPU");
}

TEST(ProtectedMemory, OperationsOfTheHostRefuseIt) {
  const at::Tensor of_gpu = at::ones({3}, gpu), of_host = at::ones({3});
  EXPECT_THROW(of_gpu.add(of_host), c10::Error);
  EXPECT_THROW(of_host.add(of_gpu), c10::Error);
  EXPECT_THROW(at::cat({of_gpu, of_host}), c10::Error);
  EXPECT_THROW(of_gpu.add(of_gpu.to(at::Device(at::kCUDA, 0))), c10::Error);
}

TEST(EmulatedDevice, NewMemoryIsNotZero) {
  EXPECT_TRUE(at::empty({100}, at::TensorOptions(gpu)).isnan().all().item<bool>());
}

TEST(EmulatedDevice, ComputesAsTheHostDoes) {
  const at::Tensor a = at::randn({5, 7}), b = at::randn({7, 3});
  EXPECT_TRUE(at::mm(on_gpu(a), on_gpu(b)).cpu().equal(at::mm(a, b)));
  EXPECT_TRUE(at::cat({on_gpu(a), on_gpu(a)}).cpu().equal(at::cat({a, a})));
  EXPECT_TRUE(std::get<1>(at::sort(on_gpu(a), 1)).cpu().equal(std::get<1>(at::sort(a, 1))));
  EXPECT_TRUE(at::arange(10, gpu).cpu().equal(at::arange(10)));
  EXPECT_TRUE(on_gpu(a).index({on_gpu(at::arange(2))}).cpu().equal(a.narrow(0, 0, 2)));
  EXPECT_EQ(on_gpu(a).sum().device(), gpu);
}

TEST(EmulatedDevice, ViewsShareTheirMemory) {
  const at::Tensor all = at::zeros({4, 6}, gpu);
  const at::Tensor part = all.view({6, 4}).t().narrow(0, 1, 2);
  EXPECT_TRUE(part.is_alias_of(all));
  part.fill_(1);
  EXPECT_EQ(all.sum().item<float>(), 12);
  EXPECT_TRUE(all.view({6, 4})[3].cpu().equal(at::arange(4).eq(1).logical_or(at::arange(4).eq(2)).to(at::kFloat)));
}

TEST(EmulatedDevice, ResultsAreWrittenIntoOtherTensors) {
  const at::Tensor a = at::randn({5, 7}), b = at::randn({7, 3});
  at::Tensor small = at::empty({0}, at::TensorOptions(gpu)), wide = at::zeros({5, 6}, gpu);
  at::mm_out(small, on_gpu(a), on_gpu(b));
  EXPECT_TRUE(small.cpu().equal(at::mm(a, b)));
  at::Tensor part = wide.narrow(1, 2, 3);
  at::mm_out(part, on_gpu(a), on_gpu(b));
  EXPECT_TRUE(wide.narrow(1, 2, 3).cpu().equal(at::mm(a, b)));
  EXPECT_EQ(wide.narrow(1, 0, 2).abs().sum().item<float>(), 0);
  small.resize_({100, 100}).fill_(1);
  EXPECT_EQ(small.sum().item<float>(), 10000);
}

TEST(EmulatedDevice, Differentiates) {
  const at::Tensor x = at::randn({5, 7}).to(gpu).requires_grad_(), w = at::randn({7, 3}).to(gpu).requires_grad_();
  at::mm(x, w).pow(2).sum().backward();
  EXPECT_EQ(x.grad().device(), gpu);
  const at::Tensor expected = at::mm(at::mm(x.detach().cpu(), w.detach().cpu()), w.detach().cpu().t()).mul(2);
  EXPECT_TRUE(x.grad().cpu().allclose(expected, 1e-5, 1e-5));
}

TEST(EmulatedDevice, PinnedMemoryIsTheHosts) {
  const at::Tensor pinned = at::ones({3}).pin_memory();
  EXPECT_TRUE(pinned.is_pinned());
  EXPECT_FALSE(at::ones({3}).is_pinned());
  EXPECT_EQ(*pinned.const_data_ptr<float>(), 1);
  EXPECT_TRUE(pinned.to(gpu, /*non_blocking=*/true).cpu().equal(pinned));
}

TEST(EmulatedDevice, CountsItsMemory) {
  const auto free_bytes = [] { return c10::getDeviceAllocator(at::kCUDA)->getMemoryInfo(1).first; };
  const size_t before = free_bytes();
  const at::Tensor block = at::empty({1 << 20}, at::TensorOptions(gpu).dtype(at::kByte));
  EXPECT_EQ(before - free_bytes(), size_t{1} << 20);
}

}  // namespace
}  // namespace gpu_emulation
