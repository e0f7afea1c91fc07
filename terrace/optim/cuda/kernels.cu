// AdamW and sums of squares on a CUDA device. Compiled without fused multiply-adds, so that the arithmetic is that of
// the CPU kernels.
#include <algorithm>
#include <type_traits>

#include "gpu_launch.cuh"
#include "terrace/base/gpu/gpu_float.cuh"
#include "terrace/optim/cuda/gpu_kernels.h"

namespace terrace::optim {
namespace {

constexpr int squares_lanes = 16, squares_pieces = 16;

// For every type but fp64, which neither gradients nor weights have.
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

// Sixteen threads a piece, with interleaved partial sums, so that the order of the additions is that of the CPU.
template <typename G>
__global__ void squares(const G* gradient, double* sums, int64_t n) {
  const int64_t own = threadIdx.x / squares_lanes, lane = threadIdx.x % squares_lanes;
  const int64_t piece = int64_t{blockIdx.x} * squares_pieces + own, begin = piece * norm_piece;
  const int64_t size = min(norm_piece, n - begin);
  __shared__ double partial[squares_pieces][squares_lanes];
  double sum = 0;
#pragma unroll 8
  for (int64_t i = lane; i < size; i += squares_lanes) {
    const double x = widen(gradient[begin + i]);
    sum += x * x;
  }
  partial[own][lane] = sum;
  __syncthreads();
  if (lane != 0 || size <= 0) return;
  double total = 0;
  for (double value : partial[own]) total += value;
  sums[piece] = total;
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

void launch_squares_by_piece(GpuArray gradient, double* sums, int64_t n, void* stream) {
  if (n == 0) return;
  constexpr int64_t of_block = squares_pieces * norm_piece;
  const auto blocks = static_cast<unsigned>((n + of_block - 1) / of_block);
  for_narrow_type(gradient.type, [&]<typename G>(G) {
    launch_kernel(squares<G>, blocks, squares_pieces * squares_lanes, stream, static_cast<const G*>(gradient.data),
                  sums, n);
  });
}

}  // namespace terrace::optim
