// Tests what the measured rate counts, with a clock that the test sets.
#include "terrace/measure/matmul_rate.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace terrace::measure {
namespace {

// Every product of a thread takes half a second.
double half_seconds() {
  thread_local double now = 0;
  return now += 0.5;
}

TEST(MatmulRate, CountsTwoOperationsPerMultiplyAddOfAllThreads) {
  const int threads = at::get_num_threads();
  for (const int several : {1, 2, 3}) {
    at::set_num_threads(several);
    const MatmulRate rate = matmul_rate(at::kCPU, at::kFloat, 0, half_seconds);
    EXPECT_EQ(rate.flops_per_second, several * 2.0 * 512 * 768 * 3072 / 0.5);
    EXPECT_EQ(at::get_num_threads(), several);
  }
  at::set_num_threads(threads);
}

TEST(MatmulRate, TakesTheFastestProducts) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  int readings = 0;
  double now = 0;
  const auto clock = [&] { return now += ++readings == 2 ? 0.5 : 0.0625; };  // the first product is slow
  EXPECT_DOUBLE_EQ(matmul_rate(at::kCPU, at::kFloat, 60, clock).flops_per_second, 2.0 * 512 * 768 * 3072 / 0.0625);
  EXPECT_GE(readings, 6);  // until three agree
  at::set_num_threads(threads);
}

TEST(MatmulRate, NamesTheProductItsTypeAndTheThreads) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  EXPECT_EQ(matmul_rate(at::kCPU, at::kFloat, 0.0).name, "the fp32 product [512, 768] x [768, 3072] measured here");
  at::set_num_threads(2);
  EXPECT_EQ(matmul_rate(at::kCPU, at::kBFloat16, 0.0).name,
            "the bf16 product [512, 768] x [768, 3072] by each of 2 threads measured here");
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace terrace::measure
