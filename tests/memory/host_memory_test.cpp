// Checks the allocator of host memory: reuse, joining of free regions, accounting, and the contents of tensors.
#include "terrace/memory/host_memory.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "terrace/memory/meter.h"

namespace terrace::memory {
namespace {

constexpr int64_t mebibyte = int64_t{1} << 20;

at::Tensor bytes(int64_t count) { return at::empty({count}, at::kByte); }

class KeptMemory : public ::testing::Test {
 protected:
  void SetUp() override { keep_host_memory(); }
};

TEST_F(KeptMemory, ReusedAtTheSamePlace) {
  const void* first = nullptr;
  {
    const at::Tensor tensor = bytes(3 * mebibyte);
    first = tensor.data_ptr();
  }
  const int64_t kept = host_memory().kept_bytes;
  EXPECT_EQ(bytes(3 * mebibyte).data_ptr(), first);
  EXPECT_EQ(host_memory().kept_bytes, kept);
}

TEST_F(KeptMemory, CountsTheBytesInTensors) {
  const int64_t before = host_memory().used_bytes;
  {
    const at::Tensor tensor = bytes(5 * mebibyte + 1);
    EXPECT_GE(host_memory().used_bytes - before, 5 * mebibyte + 1);
    EXPECT_LE(host_memory().used_bytes - before, 5 * mebibyte + 65536);
  }
  EXPECT_EQ(host_memory().used_bytes, before);
}

TEST_F(KeptMemory, MeteredLikeTorchsOwn) {
  const auto meter = std::make_shared<Meter>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, meter);
  {
    const at::Tensor large = bytes(3 * mebibyte), small = bytes(1000);
    EXPECT_GE(meter->now, 3 * mebibyte + 1000);
    EXPECT_LE(meter->now, 3 * mebibyte + 1100);
  }
  EXPECT_EQ(meter->now, 0);
}

TEST_F(KeptMemory, NeighboursAreJoinedInAnyOrder) {
  const int64_t kept_before = [] {
    const at::Tensor whole = bytes(24 * mebibyte);
    return host_memory().kept_bytes;
  }();
  for (const auto& order : {std::vector{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {0, 2, 1}}) {
    std::vector<at::Tensor> parts = {bytes(8 * mebibyte), bytes(8 * mebibyte), bytes(8 * mebibyte)};
    for (const int part : order) parts[static_cast<size_t>(part)].reset();
    const at::Tensor whole = bytes(24 * mebibyte);
    EXPECT_EQ(host_memory().kept_bytes, kept_before);
  }
}

TEST_F(KeptMemory, TensorsDoNotOverlap) {
  std::vector<at::Tensor> tensors;
  for (int64_t i = 1; i <= 40; ++i) {
    tensors.push_back(at::arange(i * 9000, at::kInt).add(i));
    if (i % 3 == 0) tensors.erase(tensors.begin() + i / 3);
  }
  for (const at::Tensor& tensor : tensors) {
    const int32_t first = tensor[0].item<int32_t>();
    EXPECT_TRUE(tensor.equal(at::arange(tensor.numel(), at::kInt).add(first)));
  }
}

TEST_F(KeptMemory, HoldsMoreThanAnArenaAndNoElements) {
  const at::Tensor large = bytes(100 * mebibyte);
  large[-1].fill_(7);
  EXPECT_EQ(large[-1].item<int>(), 7);
  EXPECT_EQ(bytes(0).numel(), 0);
}

}  // namespace
}  // namespace terrace::memory
