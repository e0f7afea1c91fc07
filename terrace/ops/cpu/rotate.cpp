// Applies rotary positions head by head.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>

#include "terrace/ops/cpu/kernels.h"
#include "terrace/ops/cpu/lanes.h"
#include "terrace/ops/element_type.h"

namespace terrace::ops::cpu {
namespace {

template <typename T>
TERRACE_VECTOR_CLONES_OF_256_BITS void rotate_head(const T* in, T* out, const float* cosines, const float* sines,
                                                   int direction, int64_t half) {
  using A = Wide<T>;
  const A sign = static_cast<A>(direction);
  for (int64_t i = 0; i < half; ++i) {
    const A first = widen(in[i]), second = widen(in[i + half]);
    const A cosine = cosines[i], sine = sign * sines[i];
    out[i] = narrow<T>(first * cosine - second * sine);
    out[i + half] = narrow<T>(second * cosine + first * sine);
  }
}

}  // namespace

void rotate(const at::Tensor& in, const at::Tensor& out, const at::Tensor& cosines, const at::Tensor& sines,
            const at::Tensor& positions, int direction) {
  TERRACE_CHECK(in.dim() == 5 && in.sizes() == out.sizes() && in.stride(4) == 1 && out.stride(4) == 1,
                "rotation of a tensor with {} dimensions", in.dim());
  const int64_t length = in.size(1), groups = in.size(2), heads = in.size(3), half = in.size(4) / 2;
  const at::Tensor at_positions = positions.defined() ? positions.contiguous() : positions;
  const int64_t* position_of = positions.defined() ? at_positions.const_data_ptr<int64_t>() : nullptr;
  const float *cosine = cosines.const_data_ptr<float>(), *sine = sines.const_data_ptr<float>();
  const auto from_strides = in.strides(), to_strides = out.strides();
  for_type(in.scalar_type(), [&]<typename T>(T) {
    const T* from = in.const_data_ptr<T>();
    T* to = out.mutable_data_ptr<T>();
    at::parallel_for(
        0, in.size(0) * length, std::max<int64_t>(1, 8192 / (groups * heads * half)), [&](int64_t begin, int64_t end) {
          for (int64_t token = begin; token < end; ++token) {
            const int64_t b = token / length, t = token % length;
            const int64_t angle = (position_of ? position_of[token] : t) * half;
            for (int64_t head = 0; head < groups * heads; ++head) {
              const int64_t g = head / heads, r = head % heads;
              const auto offset = [&](at::IntArrayRef s) { return b * s[0] + t * s[1] + g * s[2] + r * s[3]; };
              rotate_head(from + offset(from_strides), to + offset(to_strides), cosine + angle, sine + angle, direction,
                          half);
            }
          }
        });
  });
}

void copy_heads(const at::Tensor& in, const at::Tensor& out) { out.copy_(in); }

}  // namespace terrace::ops::cpu
