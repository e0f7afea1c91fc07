// The measured rate is a rate that this machine really reaches: a product timed here is not much faster.
#include "terrace/measure/matmul_rate.h"

#include <ATen/Parallel.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace terrace::measure {
namespace {

TEST(MatmulRate, IsThatOfTheProductItNames) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const MatmulRate rate = matmul_rate(at::kCPU, at::kFloat, 0.2);
  EXPECT_EQ(rate.name, "the fp32 product [2048, 768] x [768, 3072] measured here");
  const at::Tensor x = at::ones({2048, 768}), w = at::ones({3072, 768});
  double fastest = 1e30;
  for (int round = 0; round < 5; ++round) {
    const auto start = std::chrono::steady_clock::now();
    at::linear(x, w);
    fastest = std::min(fastest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  at::set_num_threads(threads);
  // Both are fastest times of the same product; on a busy machine one of them may be far slower, a wrong count of
  // operations (or bytes for elements) is off by more than any load: a factor of 30 either way.
  const double ratio = rate.flops_per_second * fastest / (2.0 * 2048 * 768 * 3072);
  EXPECT_GT(ratio, 1.0 / 30);
  EXPECT_LT(ratio, 30.0);
}

// The bits of a run hang on it.
TEST(MatmulRate, ChoosesTheSameProductsOnABusyMachine) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const ops::Products alone = matmul_rate(at::kCPU, at::kFloat, 0.0).faster;
  std::atomic<bool> over = false;
  std::vector<std::thread> others;
  for (int i = 0; i < 4; ++i) {
    others.emplace_back([&] {
      while (!over) {
      }
    });
  }
  for (int round = 0; round < 4; ++round) EXPECT_EQ(matmul_rate(at::kCPU, at::kFloat, 0.0).faster, alone);
  over = true;
  for (std::thread& other : others) other.join();
  at::set_num_threads(threads);
}

TEST(MatmulRate, NamesTheType) {
  EXPECT_NE(matmul_rate(at::kCPU, at::kBFloat16, 0.0).name.find("bf16"), std::string::npos);
}

}  // namespace
}  // namespace terrace::measure
