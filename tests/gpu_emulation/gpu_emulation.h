// Runs the source of CUDA kernels on the CPU: blocks one after another, the threads of a block as fibres that change at
// barriers and warp shuffles. Compiled before a .cu file, it gives the language of CUDA to a C++ compiler. A kernel
// must return the same on a GPU as here in every order of warps.
#pragma once

#include <math.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

namespace gpu_emulation {

// Options that decide which blocks of a launch run, and in which order the warps of a block run.
struct Options {
  uint64_t seed = 0;
  // The number of blocks at the end of a grid, in its first dimension, that run alone; -1: all. Used for results whose
  // place is beyond what memory holds.
  int64_t last_blocks = -1;
};
Options& options();

// Calls the kernel once for each thread of each block. Throws std::logic_error where a GPU would refuse the launch, or
// where not all threads that are left come to a barrier or shuffle.
void run(dim3 blocks, unsigned threads, const std::function<void()>& kernel);

// The position of the fibre that runs.
struct Position {
  dim3 thread, block, threads, blocks;
};
const Position& position();

void wait_for_block();
// Waits until all threads of the warp have come here and returns the value that thread `lane ^ distance` of it gave.
constexpr size_t most_shuffled_bytes = 8;
using ShuffledBytes = std::array<char, most_shuffled_bytes>;
ShuffledBytes exchange_in_warp(const ShuffledBytes& own, unsigned distance);

template <typename A>
A shuffle_xor(A value, unsigned distance) {
  static_assert(std::is_trivially_copyable_v<A> && sizeof(A) <= most_shuffled_bytes);
  ShuffledBytes bytes = {};
  std::memcpy(bytes.data(), &value, sizeof value);
  bytes = exchange_in_warp(bytes, distance);
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// Reports that a kernel found its condition not to hold, and aborts, as a GPU ends the process's work.
[[noreturn]] void fail(const char* condition);

}  // namespace gpu_emulation

// Blocks run one after another, so static memory is shared by the threads of one block only.
#define __shared__ static
#define __global__
#define __device__
#define __launch_bounds__(threads)
#define threadIdx (::gpu_emulation::position().thread)
#define blockIdx (::gpu_emulation::position().block)
#define blockDim (::gpu_emulation::position().threads)
#define gridDim (::gpu_emulation::position().blocks)
#define __syncthreads() ::gpu_emulation::wait_for_block()

using std::max;
using std::min;

inline float __uint_as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint32_t __float_as_uint(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
