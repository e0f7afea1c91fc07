// Computes SwiGLU, rotary positions and dropout; one thread computes each output.
#include <ATen/core/Tensor.h>
#include <c10/macros/Macros.h>

#include "terrace/base/random.h"
#include "terrace/ops/cuda/kernels.h"
#include "terrace/ops/cuda/launch.cuh"

namespace terrace::ops::cuda {
namespace {

constexpr int64_t element_threads = 256;

template <typename A>
__device__ A sigmoid(A x) {
  return A{1} / (A{1} + exp(-x));
}

template <typename T>
__global__ void swiglu_elements(const T* x, T* y, int64_t n) {
  const int64_t i = blockIdx.x * element_threads + threadIdx.x;
  if (i >= n) return;
  const Wide<T> gate = widen(x[2 * i]), up = widen(x[2 * i + 1]);
  y[i] = narrow<T>(gate * sigmoid(gate) * up);
}

template <typename T>
__global__ void swiglu_backward_elements(const T* dy, const T* x, T* dx, int64_t n) {
  using A = Wide<T>;
  const int64_t i = blockIdx.x * element_threads + threadIdx.x;
  if (i >= n) return;
  const A gate = widen(x[2 * i]), up = widen(x[2 * i + 1]), slope = widen(dy[i]);
  const A share = sigmoid(gate);
  dx[2 * i] = narrow<T>(slope * up * share * (A{1} + gate * (A{1} - share)));
  dx[2 * i + 1] = narrow<T>(slope * gate * share);
}

// The strides of a tensor [B, T, G, R, hd].
struct HeadStrides {
  explicit HeadStrides(at::IntArrayRef s) : sample(s[0]), token(s[1]), group(s[2]), head(s[3]) {}
  int64_t sample, token, group, head;
};

struct Rotation {
  const float* cosines;
  const float* sines;
  const int64_t* positions;  // null: 0 .. length-1
  int64_t table_positions;
  int64_t length;
  unsigned groups, heads, half;
  int direction;
};

// One thread block per token. Indices within a token are 32 bits wide, for which division is fast.
template <typename T>
__global__ void rotate_token(Rotation rotation, const T* in, T* out, HeadStrides from, HeadStrides to) {
  using A = Wide<T>;
  const int64_t sample = blockIdx.x / rotation.length, token = blockIdx.x % rotation.length;
  const int64_t position = rotation.positions ? rotation.positions[blockIdx.x] : token;
  CUDA_KERNEL_ASSERT(position >= 0 && position < rotation.table_positions);
  in += sample * from.sample + token * from.token;
  out += sample * to.sample + token * to.token;
  const unsigned half = rotation.half, heads = rotation.heads, pairs = rotation.groups * heads * half;
  for (unsigned n = threadIdx.x; n < pairs; n += blockDim.x) {
    const unsigned i = n % half, head = n / half, group = head / heads;
    const T* x = in + group * from.group + (head % heads) * from.head;
    T* y = out + group * to.group + (head % heads) * to.head;
    const A first = widen(x[i]), second = widen(x[i + half]);
    const A cosine = rotation.cosines[position * half + i];
    const A sine = static_cast<A>(rotation.direction) * rotation.sines[position * half + i];
    y[i] = narrow<T>(first * cosine - second * sine);
    y[i + half] = narrow<T>(second * cosine + first * sine);
  }
}

struct DropoutRows {
  PhiloxKey key;
  uint32_t threshold;
  const int64_t* samples;
  int64_t planes, length, columns;
  int64_t first_plane, first_position;
};

// One thread block per row, and one thread for each of its Philox blocks, which serve eight features with a distance of
// sixteen; terrace/ops/cpu/dropout.cpp describes the order.
template <typename T>
__global__ void dropout_row(DropoutRows rows, const T* x, const T* residual, T* out) {
  using A = Wide<T>;
  constexpr int64_t lanes = 16, group_size = 8 * lanes;
  const int64_t row = blockIdx.x, begin = row * rows.columns;
  const auto sample = static_cast<uint64_t>(rows.samples[row / (rows.planes * rows.length)]);
  const auto plane = static_cast<uint32_t>(rows.first_plane + row / rows.length % rows.planes);
  const A scale = A{65536} / static_cast<A>(65536 - rows.threshold);
  const int64_t blocks = (rows.columns + group_size - 1) / group_size * lanes;
  for (int64_t block = threadIdx.x; block < blocks; block += blockDim.x) {
    const PhiloxBlock words =
        philox(rows.key, {static_cast<uint32_t>(block), static_cast<uint32_t>(rows.first_position + row % rows.length),
                          static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32) | plane << 16});
#pragma unroll
    for (int64_t half = 0; half < 8; ++half) {
      const int64_t feature = block / lanes * group_size + half * lanes + block % lanes;
      if (feature >= rows.columns) break;
      const uint32_t draw = (words[half / 2] >> (16 * (half % 2))) & 0xFFFF;
      const A kept = widen(x[begin + feature]) * (draw >= rows.threshold ? scale : A{0});
      out[begin + feature] = narrow<T>(residual ? kept + widen(residual[begin + feature]) : kept);
    }
  }
}

}  // namespace

void swiglu(const at::Tensor& x, const at::Tensor& y) {
  for_type(x.scalar_type(), [&]<typename T>(T) {
    launch(swiglu_elements<T>, pieces(y.numel(), element_threads), element_threads, x.device(), x.const_data_ptr<T>(),
           y.mutable_data_ptr<T>(), y.numel());
  });
}

void swiglu_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& dx) {
  for_type(x.scalar_type(), [&]<typename T>(T) {
    launch(swiglu_backward_elements<T>, pieces(dy.numel(), element_threads), element_threads, x.device(),
           dy.const_data_ptr<T>(), x.const_data_ptr<T>(), dx.mutable_data_ptr<T>(), dy.numel());
  });
}

void rotate(const at::Tensor& in, const at::Tensor& out, const at::Tensor& cosines, const at::Tensor& sines,
            const at::Tensor& positions, int direction) {
  TERRACE_CHECK(in.dim() == 5 && in.sizes() == out.sizes() && in.stride(4) == 1 && out.stride(4) == 1,
                "rotation of a tensor with {} dimensions", in.dim());
  const at::Tensor at_positions = positions.defined() ? positions.contiguous() : positions;
  const Rotation rotation = {.cosines = cosines.const_data_ptr<float>(),
                             .sines = sines.const_data_ptr<float>(),
                             .positions = pointer_or_null<int64_t>(at_positions),
                             .table_positions = cosines.size(0),
                             .length = in.size(1),
                             .groups = static_cast<unsigned>(in.size(2)),
                             .heads = static_cast<unsigned>(in.size(3)),
                             .half = static_cast<unsigned>(in.size(4) / 2),
                             .direction = direction};
  const auto tokens = static_cast<unsigned>(in.size(0) * in.size(1));
  const int64_t threads = threads_for(in.size(2) * in.size(3) * rotation.half);
  for_type(in.scalar_type(), [&]<typename T>(T) {
    launch(rotate_token<T>, tokens, threads, in.device(), rotation, in.const_data_ptr<T>(), out.mutable_data_ptr<T>(),
           HeadStrides(in.strides()), HeadStrides(out.strides()));
  });
}

void dropout(const DropoutDraw& draw, const at::Tensor& x, const at::Tensor& residual, const at::Tensor& out) {
  TERRACE_CHECK(x.dim() == 4 && draw.samples.numel() == x.size(0), "{} sample numbers for dropout",
                draw.samples.numel());
  const at::Tensor samples = draw.samples.contiguous();
  const DropoutRows rows = {.key = draw.key,
                            .threshold = draw.threshold,
                            .samples = samples.const_data_ptr<int64_t>(),
                            .planes = x.size(1),
                            .length = x.size(2),
                            .columns = x.size(3),
                            .first_plane = draw.first_plane,
                            .first_position = draw.first_position};
  const auto num_rows = static_cast<unsigned>(x.size(0) * x.size(1) * x.size(2));
  for_type(x.scalar_type(), [&]<typename T>(T) {
    launch(dropout_row<T>, num_rows, threads_for(pieces(rows.columns, 8)), x.device(), rows, x.const_data_ptr<T>(),
           pointer_or_null<T>(residual), out.mutable_data_ptr<T>());
  });
}

}  // namespace terrace::ops::cuda
