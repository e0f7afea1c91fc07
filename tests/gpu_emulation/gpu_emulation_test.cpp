// The emulation finds what it is for: missing barriers, shuffles that a warp does not make together, and launches that
// a GPU refuses. Kernels without such mistakes return the same in every order of warps.
#include "tests/gpu_emulation/gpu_emulation.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <stdexcept>
#include <vector>

namespace gpu_emulation {
namespace {

constexpr unsigned threads = 256;

// Each thread's value travels to the thread that mirrors it in the block.
void reverse(const int* from, int* to, bool with_barrier) {
  __shared__ int values[threads];
  values[threadIdx.x] = from[blockIdx.x * threads + threadIdx.x];
  if (with_barrier) __syncthreads();
  to[blockIdx.x * threads + threadIdx.x] = values[threads - 1 - threadIdx.x];
  if (with_barrier) __syncthreads();
}

std::vector<int> reversed(uint64_t seed, bool with_barrier) {
  options().seed = seed;
  std::vector<int> from(3 * threads), to(from.size(), -1);
  std::iota(from.begin(), from.end(), 0);
  run(3, threads, [&] { reverse(from.data(), to.data(), with_barrier); });
  return to;
}

TEST(GpuEmulation, AKernelWithItsBarriersReturnsTheSameInEveryOrder) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<int> got = reversed(seed, true);
    for (int i = 0; i < static_cast<int>(got.size()); ++i) {
      const int block = i / static_cast<int>(threads), place = i % static_cast<int>(threads);
      ASSERT_EQ(got[static_cast<size_t>(i)], (block + 1) * static_cast<int>(threads) - 1 - place);
    }
  }
}

TEST(GpuEmulation, AMissingBarrierShows) {
  const std::vector<int> right = reversed(0, true);
  std::set<std::vector<int>> seen;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_NE(reversed(seed, false), right) << "seed " << seed;
    seen.insert(reversed(seed, false));
  }
  EXPECT_GT(seen.size(), 10U);  // orders
}

TEST(GpuEmulation, ShufflesExchangeValuesWithinAWarp) {
  std::vector<double> got(64);
  run(1, 64, [&] {
    double sum = threadIdx.x;
    for (unsigned distance = 16; distance > 0; distance /= 2) sum += gpu_emulation::shuffle_xor(sum, distance);
    got[threadIdx.x] = sum;
  });
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], i < 32 ? 496 : 496 + 32 * 32);
}

TEST(GpuEmulation, AShuffleWithoutAWholeWarpIsAnError) {
  const auto half = [] {
    if (threadIdx.x < 16) gpu_emulation::shuffle_xor(1, 1);
  };
  EXPECT_THROW(run(1, 32, half), std::logic_error);
}

TEST(GpuEmulation, ThreadsThatHaveReturnedAreNotAwaited) {
  int waited = 0;
  run(1, 96, [&] {
    if (threadIdx.x >= 40) return;
    __syncthreads();
    ++waited;
  });
  EXPECT_EQ(waited, 40);
}

TEST(GpuEmulation, LaunchesThatAGpuRefusesAreErrors) {
  const auto nothing = [] {};
  EXPECT_THROW(run(0, 32, nothing), std::logic_error);
  EXPECT_THROW(run(1, 1025, nothing), std::logic_error);
  EXPECT_THROW(run(dim3(1, 65536), 32, nothing), std::logic_error);
  EXPECT_THROW(run(dim3(1U << 31), 32, nothing), std::logic_error);
}

TEST(GpuEmulation, RunsOnlyTheLastBlocksIfAsked) {
  std::set<unsigned> ran;
  options().last_blocks = 2;
  run(dim3(1U << 30), 1, [&] { ran.insert(blockIdx.x); });
  options().last_blocks = -1;
  EXPECT_EQ(ran, (std::set<unsigned>{(1U << 30) - 2, (1U << 30) - 1}));
}

}  // namespace
}  // namespace gpu_emulation
