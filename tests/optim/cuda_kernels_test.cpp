// The CUDA kernels of the optimizer give the bits of the CPU's. Skipped without a GPU; tests/gpu_emulation runs the
// same tests on the CPU, in several orders of warps.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "terrace/optim/kernels.h"
#include "tests/gpu_device.h"
#include "tests/optim/some_step.h"

namespace terrace::optim {
namespace {

using gpu_device::device;

constexpr int64_t sizes[] = {1, 15, 16, 255, 257, 1023, 1024, 1025, 4100};

// Every order of warps is right if the results of all of these are.
void in_several_orders(const std::function<void()>& body) {
  for (uint64_t order = 0; order < gpu_device::orders; ++order) {
    gpu_device::choose_order(order);
    body();
  }
}

class CudaOptimizer : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!gpu_device::is_there()) GTEST_SKIP() << "no GPU";
  }
};

TEST_F(CudaOptimizer, AdamWGivesTheCpusBits) {
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
      const auto copy = [&, type = value_type](at::DeviceType on) {
        States states{master.to(on).clone(), m.to(on).clone(), v.to(on).clone(), {}};
        states.value = type == at::kFloat ? states.master : at::empty({size}, states.master.options().dtype(type));
        return states;
      };
      States cpu = copy(at::kCPU);
      adamw_step_cpu(some_step(), gradient, cpu.master, cpu.m, cpu.v, cpu.value);
      in_several_orders([&] {
        States gpu = copy(device);
        adamw_step_cuda(some_step(), gradient.to(device), gpu.master, gpu.m, gpu.v, gpu.value);
        EXPECT_TRUE(gpu.master.cpu().equal(cpu.master) && gpu.m.cpu().equal(cpu.m) && gpu.v.cpu().equal(cpu.v) &&
                    gpu.value.cpu().equal(cpu.value))
            << size << " " << gradient.toString() << " " << cpu.value.toString();
      });
    }
  }
}

// Sums squares of one gradient after another; the first piece is whole, or the end of one.
TEST_F(CudaOptimizer, SquaresGiveTheCpusBits) {
  for (const int64_t size : sizes) {
    for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      for (const int64_t first : {int64_t{1}, int64_t{700}, norm_piece}) {
        const at::Tensor gradient = at::randn({size}).to(type), on_gpu = gradient.to(device);
        at::Tensor cpu = at::zeros({square_rows, exact_words}, at::kLong);
        add_squares_cpu(gradient, first, cpu);
        add_squares_cpu(gradient, first, cpu);
        in_several_orders([&] {
          at::Tensor gpu = at::zeros({square_rows, exact_words}, at::TensorOptions(at::kLong).device(device));
          add_squares_cuda(on_gpu, first, gpu);
          add_squares_cuda(on_gpu, first, gpu);
          EXPECT_TRUE(gpu.cpu().sum(0).equal(cpu.sum(0))) << size << " " << at::toString(type) << " " << first;
        });
      }
    }
  }
}

TEST_F(CudaOptimizer, SquaresOfMorePiecesThanTheGridTakesAtOnce) {
  const int64_t size = square_rows * 16 * norm_piece + 5 * norm_piece + 3;
  const at::Tensor gradient = at::zeros({size}, at::kBFloat16);
  gradient.narrow(0, size - 4 * norm_piece, 4 * norm_piece).fill_(3);
  at::Tensor rows = at::zeros({square_rows, exact_words}, at::TensorOptions(at::kLong).device(device));
  add_squares_cuda(gradient.to(device), norm_piece, rows);
  const at::Tensor words = rows.cpu().sum(0);
  ExactSum sum = {};
  std::copy_n(words.const_data_ptr<int64_t>(), sum.size(), sum.begin());
  EXPECT_EQ(value_of(sum), 9.0 * 4 * norm_piece);
}

}  // namespace
}  // namespace terrace::optim
