// AdamW and sums of squares on a CUDA device. Compiled without fused multiply-adds, so that the arithmetic is that of
// the CPU kernels.
#include <algorithm>
#include <type_traits>

#include "gpu_launch.cuh"
#include "terrace/base/gpu/gpu_float.cuh"
#include "terrace/optim/cuda/gpu_kernels.h"

namespace terrace::optim {
namespace {

constexpr int squares_threads = 16;

// For every type but fp64, which neither gradients nor weights have.
template <typename Body>
void for_narrow_type(GpuFloat type, const Body& body) {
  for_gpu_type(type, [&]<typename T>(T value) {
    if constexpr (!std::is_same_v<T, double>) body(value);
  });
}

template <typename G, typename V>
__global__ void adamw(AdamWCoefficients c, const G* gradient, float* master, float* m, float* v, V* value, int64_t n) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float g = widen(gradient[i]) * c.multiplier;
    const float first = m[i] + (g - m[i]) * c.one_minus_beta1;
    const float second = v[i] * c.beta2 + c.one_minus_beta2 * (g * g);
    const float denominator = sqrtf(second) * c.inverse_root_correction2 + c.epsilon;
    const float p = master[i] * c.keep - c.rate * (first / denominator);
    m[i] = first;
    v[i] = second;
    master[i] = p;
    value[i] = narrow<V>(p);
  }
}

// One thread block per piece, with sixteen interleaved partial sums, so that the order of the additions is that of the
// CPU.
template <typename G>
__global__ void squares(const G* gradient, double* sums, int64_t n) {
  constexpr int lanes = squares_threads;
  const int64_t begin = blockIdx.x * norm_piece;
  const int64_t size = min(norm_piece, n - begin);
  __shared__ double partial[lanes];
  double sum = 0;
  for (int64_t i = threadIdx.x; i < size; i += lanes) {
    const double x = widen(gradient[begin + i]);
    sum += x * x;
  }
  partial[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  double total = 0;
  for (double value : partial) total += value;
  sums[blockIdx.x] = total;
}

}  // namespace

void launch_adamw(const AdamWCoefficients& c, GpuArray gradient, const AdamWArrays& state, GpuArray value, int64_t n,
                  void* stream) {
  const auto blocks = static_cast<unsigned>(std::min<int64_t>((n + 255) / 256, 4096));
  if (blocks == 0) return;
  for_narrow_type(gradient.type, [&]<typename G>(G) {
    for_narrow_type(value.type, [&]<typename V>(V) {
      launch_kernel(adamw<G, V>, blocks, 256, stream, c, static_cast<const G*>(gradient.data), state.master, state.m,
                    state.v, static_cast<V*>(value.data), n);
    });
  });
}

void launch_squares_by_piece(GpuArray gradient, double* sums, int64_t n, void* stream) {
  if (n == 0) return;
  const auto blocks = static_cast<unsigned>((n + norm_piece - 1) / norm_piece);
  for_narrow_type(gradient.type, [&]<typename G>(G) {
    launch_kernel(squares<G>, blocks, squares_threads, stream, static_cast<const G*>(gradient.data), sums, n);
  });
}

}  // namespace terrace::optim
