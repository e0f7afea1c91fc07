// AdamW and sums of squares on a CUDA device. Compiled without fused multiply-adds, so that the arithmetic is that of
// the CPU kernels.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/ops/cuda/launch.cuh"
#include "terrace/optim/kernels.h"

namespace terrace::optim {
namespace {

template <typename G, typename V>
__global__ void adamw(AdamWCoefficients c, const G* gradient, float* master, float* m, float* v, V* value, int64_t n) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float g = static_cast<float>(gradient[i]) * c.multiplier;
    const float first = m[i] + (g - m[i]) * c.one_minus_beta1;
    const float second = v[i] * c.beta2 + c.one_minus_beta2 * (g * g);
    const float denominator = sqrtf(second) * c.inverse_root_correction2 + c.epsilon;
    const float p = master[i] * c.keep - c.rate * (first / denominator);
    m[i] = first;
    v[i] = second;
    master[i] = p;
    value[i] = static_cast<V>(p);
  }
}

// One thread block per piece, with sixteen interleaved partial sums, so that the order of the additions is that of the
// CPU.
template <typename G>
__global__ void squares(const G* gradient, double* sums, int64_t n) {
  constexpr int lanes = 16;
  const int64_t begin = blockIdx.x * norm_piece;
  const int64_t size = min(norm_piece, n - begin);
  __shared__ double partial[lanes];
  double sum = 0;
  for (int64_t i = threadIdx.x; i < size; i += lanes) {
    const double x = static_cast<float>(gradient[begin + i]);
    sum += x * x;
  }
  partial[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  double total = 0;
  for (double value : partial) total += value;
  sums[blockIdx.x] = total;
}

template <typename G, typename V>
void launch(const AdamWCoefficients& c, const at::Tensor& gradient, at::Tensor& master, at::Tensor& m, at::Tensor& v,
            at::Tensor& value) {
  const int64_t n = gradient.numel();
  const auto blocks = static_cast<unsigned>(std::min<int64_t>((n + 255) / 256, 4096));
  ops::cuda::launch(adamw<G, V>, blocks, 256, gradient.device(), c, gradient.const_data_ptr<G>(),
                    master.data_ptr<float>(), m.data_ptr<float>(), v.data_ptr<float>(), value.data_ptr<V>(), n);
}

template <typename G>
void launch_for_value(const AdamWCoefficients& c, const at::Tensor& gradient, at::Tensor& master, at::Tensor& m,
                      at::Tensor& v, at::Tensor& value) {
  switch (value.scalar_type()) {
    case at::kFloat:
      return launch<G, float>(c, gradient, master, m, v, value);
    case at::kBFloat16:
      return launch<G, at::BFloat16>(c, gradient, master, m, v, value);
    case at::kHalf:
      return launch<G, at::Half>(c, gradient, master, m, v, value);
    default:
      TERRACE_CHECK(false, "weights of {}", at::toString(value.scalar_type()));
  }
}

template <typename G>
void launch_squares(const at::Tensor& gradient, at::Tensor& sums) {
  ops::cuda::launch(squares<G>, static_cast<unsigned>(sums.numel()), 16, gradient.device(),
                    gradient.const_data_ptr<G>(), sums.data_ptr<double>(), gradient.numel());
}

}  // namespace

void adamw_step_cuda(const AdamWStep& step, const at::Tensor& gradient, at::Tensor& master, at::Tensor& m,
                     at::Tensor& v, at::Tensor& value) {
  const AdamWCoefficients c(step);
  switch (gradient.scalar_type()) {
    case at::kFloat:
      return launch_for_value<float>(c, gradient, master, m, v, value);
    case at::kBFloat16:
      return launch_for_value<at::BFloat16>(c, gradient, master, m, v, value);
    case at::kHalf:
      return launch_for_value<at::Half>(c, gradient, master, m, v, value);
    default:
      TERRACE_CHECK(false, "gradients of {}", at::toString(gradient.scalar_type()));
  }
}

at::Tensor squares_by_piece_cuda(const at::Tensor& gradient) {
  at::Tensor sums =
      at::empty({(gradient.numel() + norm_piece - 1) / norm_piece}, gradient.options().dtype(at::kDouble));
  switch (gradient.scalar_type()) {
    case at::kFloat:
      launch_squares<float>(gradient, sums);
      break;
    case at::kBFloat16:
      launch_squares<at::BFloat16>(gradient, sums);
      break;
    case at::kHalf:
      launch_squares<at::Half>(gradient, sums);
      break;
    default:
      TERRACE_CHECK(false, "gradients of {}", at::toString(gradient.scalar_type()));
  }
  return sums.cpu();
}

}  // namespace terrace::optim
