// AdamW and sums of squares on a CUDA device. Compiled without fused multiply-adds, so that the arithmetic is that of
// the CPU kernels.
#include <algorithm>
#include <type_traits>

#include "gpu_launch.cuh"
#include "terrace/base/gpu/gpu_float.cuh"
#include "terrace/optim/cuda/gpu_kernels.h"
#include "terrace/optim/exact_sum.h"

namespace terrace::optim {
namespace {

constexpr int squares_lanes = 16, squares_pieces = 16;

// Calls `body` for every type but fp64, which neither gradients nor weights have.
template <typename Body>
void for_narrow_type(GpuFloat type, const Body& body) {
  for_gpu_type(type, [&]<typename T>(T value) {
    if constexpr (!std::is_same_v<T, double>) body(value);
  });
}

// A thread computes `size` elements at a time, of which n is a multiple. `value` may be the master, which then gets the
// same bits twice.
template <typename G, typename V, int size>
__global__ void adamw(AdamWCoefficients c, const G* gradient, float* masters, float* ms, float* vs, V* values,
                      int64_t n) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x * size;
  for (int64_t i = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * size; i < n; i += stride) {
    const GpuPack<G, size> gradients = load_pack<size>(gradient + i);
    GpuPack<float, size> master = load_pack<size>(masters + i), m = load_pack<size>(ms + i),
                         v = load_pack<size>(vs + i);
    GpuPack<V, size> value;
#pragma unroll
    for (int k = 0; k < size; ++k) {
      const float g = widen(gradients.elements[k]) * c.multiplier;
      const float first = m.elements[k] + (g - m.elements[k]) * c.one_minus_beta1;
      const float second = v.elements[k] * c.beta2 + c.one_minus_beta2 * (g * g);
      const float denominator = sqrtf(second) * c.inverse_root_correction2 + c.epsilon;
      const float p = master.elements[k] * c.keep - c.rate * (first / denominator);
      m.elements[k] = first;
      v.elements[k] = second;
      master.elements[k] = p;
      value.elements[k] = narrow<V>(p);
    }
    store_pack(ms + i, m);
    store_pack(vs + i, v);
    store_pack(masters + i, master);
    store_pack(values + i, value);
  }
}

// Sixteen threads a piece, with interleaved partial sums, so that the order of the additions is that of the CPU. Each
// sixteen threads have an exact sum, and the block adds theirs to its own row.
template <typename G>
__global__ void squares(const G* gradient, int64_t first, int64_t n, int64_t* rows) {
  const int64_t own = threadIdx.x / squares_lanes, lane = threadIdx.x % squares_lanes;
  const int64_t before = norm_piece - first, pieces = (before + n + norm_piece - 1) / norm_piece;
  __shared__ double partial[squares_pieces][squares_lanes];
  __shared__ int64_t sums[squares_pieces][exact_words];
  for (int64_t word = lane; word < exact_words; word += squares_lanes) sums[own][word] = 0;
  for (int64_t of_block = int64_t{blockIdx.x} * squares_pieces; of_block < pieces;
       of_block += int64_t{gridDim.x} * squares_pieces) {
    const int64_t from = max(int64_t{0}, (of_block + own) * norm_piece - before);
    const int64_t to = min(n, (of_block + own + 1) * norm_piece - before);
    double sum = 0;
#pragma unroll 8
    for (int64_t i = from + lane; i < to; i += squares_lanes) {
      const double x = widen(gradient[i]);
      sum += x * x;
    }
    partial[own][lane] = sum;
    __syncthreads();
    if (lane == 0) {
      double total = 0;
      for (double value : partial[own]) total += value;
      add_exactly(total, sums[own]);
    }
    __syncthreads();
  }
  if (threadIdx.x >= exact_words) return;
  int64_t total = 0;
  for (const auto& sum : sums) total += sum[threadIdx.x];
  rows[int64_t{blockIdx.x} * exact_words + threadIdx.x] += total;
}

}  // namespace

void launch_adamw(const AdamWCoefficients& c, GpuArray gradient, const AdamWArrays& state, GpuArray value, int64_t n,
                  void* stream) {
  constexpr int size = 4;
  if (n == 0) return;
  for_narrow_type(gradient.type, [&]<typename G>(G) {
    for_narrow_type(value.type, [&]<typename V>(V) {
      const auto* const from = static_cast<const G*>(gradient.data);
      auto* const to = static_cast<V*>(value.data);
      const auto run = [&](auto kernel, int64_t at_once) {
        const auto blocks = static_cast<unsigned>(std::min<int64_t>((n / at_once + 255) / 256, 4096));
        launch_kernel(kernel, blocks, 256, stream, c, from, state.master, state.m, state.v, to, n);
      };
      if (are_packs<size>(n, from, state.master, state.m, state.v, to)) {
        run(adamw<G, V, size>, size);
      } else {
        run(adamw<G, V, 1>, 1);
      }
    });
  });
}

void launch_add_squares(GpuArray gradient, int64_t first, int64_t n, int64_t* rows, int64_t num_rows, void* stream) {
  if (n == 0) return;
  constexpr int64_t of_block = squares_pieces * norm_piece;
  const auto blocks = static_cast<unsigned>(std::min((norm_piece - first + n + of_block - 1) / of_block, num_rows));
  for_narrow_type(gradient.type, [&]<typename G>(G) {
    launch_kernel(squares<G>, blocks, squares_pieces * squares_lanes, stream, static_cast<const G*>(gradient.data),
                  first, n, rows);
  });
}

}  // namespace terrace::optim
