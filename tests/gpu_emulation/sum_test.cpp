// The kernel that adds terms in rank order gives the bits of the CPU's.
#include "terrace/comm/nccl/sum.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "gpu_runtime.h"
#include "terrace/comm/sum.h"

namespace terrace {
namespace {

constexpr int64_t sizes[] = {1, 15, 16, 255, 257, 1023, 1024, 1025, 4100};

at::Tensor random_terms(comm::Type type, int64_t count) {
  switch (type) {
    case comm::Type::fp64:
      return at::randn({count}, at::kDouble);
    case comm::Type::fp32:
      return at::randn({count});
    case comm::Type::bf16:
      return at::randn({count}).to(at::kBFloat16);
    case comm::Type::fp16:
      return at::randn({count}).to(at::kHalf);
    case comm::Type::int64:
      return at::randint(-1000, 1000, {count}, at::kLong);
    case comm::Type::int32:
      return at::randint(-1000, 1000, {count}, at::kInt);
    case comm::Type::uint8:
      return at::randint(0, 256, {count}, at::kByte);
  }
  return {};
}

TEST(EmulatedKernels, SumsOfTermsGiveTheCpusBits) {
  for (const comm::Type type : {comm::Type::fp64, comm::Type::fp32, comm::Type::bf16, comm::Type::fp16,
                                comm::Type::int64, comm::Type::int32, comm::Type::uint8}) {
    for (const int64_t terms : {2, 5}) {
      for (const int64_t count : sizes) {
        const at::Tensor from = random_terms(type, terms * count);
        const at::Tensor cpu = at::empty({count}, from.options()), gpu = at::empty({count}, from.options());
        std::vector<const void*> places;
        for (int64_t term = 0; term < terms; ++term)
          places.push_back(from.narrow(0, term * count, count).const_data_ptr());
        void* const to[] = {cpu.mutable_data_ptr()};
        comm::sum_members(type, places, to, 0, count);
        comm::sum_on_gpu(type, from.const_data_ptr(), terms, count, gpu.mutable_data_ptr(), nullptr);
        EXPECT_TRUE(gpu.equal(cpu)) << name_of(type) << ", " << terms << " terms of " << count;
      }
    }
  }
}

}  // namespace
}  // namespace terrace
