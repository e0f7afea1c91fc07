// The CUDA kernels of the optimizer and of sums in rank order give the bits of the CPU's, in every order of warps.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "gpu_runtime.h"
#include "terrace/comm/nccl/sum.h"
#include "terrace/comm/sum.h"
#include "terrace/optim/kernels.h"
#include "tests/gpu_emulation/gpu_emulation.h"
#include "tests/optim/some_step.h"

namespace terrace {
namespace {

constexpr int64_t sizes[] = {1, 15, 16, 255, 257, 1023, 1024, 1025, 4100};

// Every order of warps is right if the results of all of these are.
void in_several_orders(const std::function<void()>& body) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    gpu_emulation::options().seed = seed;
    body();
  }
}

TEST(EmulatedKernels, AdamWGivesTheCpusBits) {
  struct States {
    at::Tensor master, m, v, value;
  };
  // Values of fp32 are the masters.
  const std::pair<at::ScalarType, at::ScalarType> types[] = {
      {at::kFloat, at::kFloat}, {at::kBFloat16, at::kFloat},    {at::kHalf, at::kFloat}, {at::kFloat, at::kBFloat16},
      {at::kFloat, at::kHalf},  {at::kBFloat16, at::kBFloat16}, {at::kHalf, at::kHalf}};
  for (const int64_t size : sizes) {
    for (const auto& [gradient_type, value_type] : types) {
      const at::Tensor gradient = at::randn({size}).to(gradient_type), master = at::randn({size}),
                       m = at::randn({size}), v = at::randn({size}).square();
      const auto copy = [&, type = value_type] {
        States states{master.clone(), m.clone(), v.clone(), {}};
        states.value = type == at::kFloat ? states.master : at::empty({size}, type);
        return states;
      };
      States cpu = copy();
      optim::adamw_step_cpu(optim::some_step(), gradient, cpu.master, cpu.m, cpu.v, cpu.value);
      in_several_orders([&] {
        States gpu = copy();
        optim::adamw_step_cuda(optim::some_step(), gradient, gpu.master, gpu.m, gpu.v, gpu.value);
        EXPECT_TRUE(gpu.master.equal(cpu.master) && gpu.m.equal(cpu.m) && gpu.v.equal(cpu.v) &&
                    gpu.value.equal(cpu.value))
            << size << " " << gradient.toString() << " " << cpu.value.toString();
      });
    }
  }
}

TEST(EmulatedKernels, SquaresGiveTheCpusBits) {
  for (const int64_t size : sizes) {
    for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const at::Tensor gradient = at::randn({size}).to(type), cpu = optim::squares_by_piece_cpu(gradient);
      in_several_orders(
          [&] { EXPECT_TRUE(optim::squares_by_piece_cuda(gradient).equal(cpu)) << size << " " << at::toString(type); });
    }
  }
}

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
