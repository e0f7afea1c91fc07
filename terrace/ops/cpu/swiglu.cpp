// Computes SwiGLU on pairs of gate and up.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include "terrace/ops/cpu/kernels.h"
#include "terrace/ops/cpu/lanes.h"
#include "terrace/ops/element_type.h"

namespace terrace::ops::cpu {
namespace {

constexpr int64_t swiglu_grain = 8192;  // outputs that are worth a thread

template <typename T>
TERRACE_VECTOR_CLONES void swiglu_range(const T* x, T* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const Wide<T> gate = widen(x[2 * i]), up = widen(x[2 * i + 1]);
    y[i] = narrow<T>(gate * sigmoid(gate) * up);
  }
}

template <typename T>
TERRACE_VECTOR_CLONES void swiglu_backward_range(const T* dy, const T* x, T* dx, int64_t n) {
  using A = Wide<T>;
  for (int64_t i = 0; i < n; ++i) {
    const A gate = widen(x[2 * i]), up = widen(x[2 * i + 1]), slope = widen(dy[i]);
    const A share = sigmoid(gate);
    dx[2 * i] = narrow<T>(slope * up * share * (A{1} + gate * (A{1} - share)));
    dx[2 * i + 1] = narrow<T>(slope * gate * share);
  }
}

}  // namespace

void swiglu(const at::Tensor& x, const at::Tensor& y) {
  for_type(x.scalar_type(), [&]<typename T>(T) {
    const T* from = x.const_data_ptr<T>();
    T* to = y.mutable_data_ptr<T>();
    at::parallel_for(0, y.numel(), swiglu_grain,
                     [&](int64_t begin, int64_t end) { swiglu_range(from + 2 * begin, to + begin, end - begin); });
  });
}

void swiglu_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& dx) {
  for_type(x.scalar_type(), [&]<typename T>(T) {
    const T *slope = dy.const_data_ptr<T>(), *from = x.const_data_ptr<T>();
    T* to = dx.mutable_data_ptr<T>();
    at::parallel_for(0, dy.numel(), swiglu_grain, [&](int64_t begin, int64_t end) {
      swiglu_backward_range(slope + begin, from + 2 * begin, to + 2 * begin, end - begin);
    });
  });
}

}  // namespace terrace::ops::cpu
