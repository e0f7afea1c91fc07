// Tests that the machine reaches the measured rate: a product timed by the test is not much faster or slower.
#include "terrace/measure/matmul_rate.h"

#include <ATen/Parallel.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "tests/measure/busy_machine.h"

namespace terrace::measure {
namespace {

TEST(MatmulRate, IsThatOfTheProductItNames) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const MatmulRate rate = matmul_rate(at::kCPU, at::kFloat, 0.2);
  EXPECT_EQ(rate.name, "the fp32 product [512, 768] x [768, 3072] measured here");
  const at::Tensor x = at::ones({512, 768}), w = at::ones({3072, 768});
  double fastest = 1e30;
  for (int round = 0; round < 5; ++round) {
    const auto start = std::chrono::steady_clock::now();
    at::linear(x, w);
    fastest = std::min(fastest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  at::set_num_threads(threads);
  // Both are the fastest times of the same product. On a busy machine one may be far slower, but a wrong count of
  // operations (or bytes for elements) is off by more than any load makes up: a factor of 30 either way.
  const double ratio = rate.flops_per_second * fastest / (2.0 * 512 * 768 * 3072);
  EXPECT_GT(ratio, 1.0 / 30);
  EXPECT_LT(ratio, 30.0);
}

// By the clock a thread would get a fifth of a core or less. In processor time the rate falls by less than half,
// because caches are shared with other threads.
TEST(MatmulRate, IsThatOfAnIdleMachineOnABusyOne) {
  const int threads = at::get_num_threads();
  for (const int several : {1, 2}) {
    at::set_num_threads(several);
    const double alone = matmul_rate(at::kCPU, at::kFloat, 0.5).flops_per_second;
    const BusyMachine busy;
    EXPECT_GT(matmul_rate(at::kCPU, at::kFloat, 0.5).flops_per_second, 0.45 * alone) << several;
    EXPECT_EQ(at::get_num_threads(), several);
  }
  at::set_num_threads(threads);
}

TEST(MatmulRate, NamesTheTypeAndTheThreads) {
  const int threads = at::get_num_threads();
  at::set_num_threads(2);
  EXPECT_EQ(matmul_rate(at::kCPU, at::kBFloat16, 0.0).name,
            "the bf16 product [512, 768] x [768, 3072] by each of 2 threads measured here");
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace terrace::measure
