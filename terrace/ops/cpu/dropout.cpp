// Dropout on the CPU, which draws the mask where it is used. A Philox block has eight 16-bit draws, and sixteen blocks
// serve a group of 128 features: feature 16 h + l of a group takes half h % 2 of word h / 2 of the group's block l.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>

#include "terrace/ops/cpu/kernels.h"
#include "terrace/ops/cpu/philox_lanes.h"
#include "terrace/ops/element_type.h"

namespace terrace::ops::cpu {
namespace {

constexpr int64_t group_size = 8 * num_lanes;

template <typename T>
TERRACE_VECTOR_CLONES void dropout_row(const DropoutDraw& draw, PhiloxBlock counter, const T* x, const T* residual,
                                       T* out, int64_t columns) {
  using A = Wide<T>;
  const A scale = A{65536} / static_cast<A>(65536 - draw.threshold);
  for (int64_t begin = 0; begin < columns; begin += group_size, counter[0] += num_lanes) {
    uint32_t words[4][num_lanes];
    philox_lanes<false>(draw.key, counter, words);
    A factors[group_size];
    for (int64_t half = 0; half < 8; ++half) {
      TERRACE_LANE_LOOP
      for (int64_t lane = 0; lane < num_lanes; ++lane) {
        const uint32_t value = (words[half / 2][lane] >> (16 * (half % 2))) & 0xFFFF;
        factors[half * num_lanes + lane] = value >= draw.threshold ? scale : A{0};
      }
    }
    const int64_t size = std::min(group_size, columns - begin);
    if (residual) {
      for (int64_t i = 0; i < size; ++i) {
        out[begin + i] = narrow<T>(widen(x[begin + i]) * factors[i] + widen(residual[begin + i]));
      }
    } else {
      for (int64_t i = 0; i < size; ++i) out[begin + i] = narrow<T>(widen(x[begin + i]) * factors[i]);
    }
  }
}

}  // namespace

void dropout(const DropoutDraw& draw, const at::Tensor& x, const at::Tensor& residual, const at::Tensor& out) {
  TERRACE_CHECK(x.dim() == 4 && draw.samples.numel() == x.size(0), "{} sample numbers for dropout",
                draw.samples.numel());
  const int64_t planes = x.size(1), length = x.size(2), columns = x.size(3);
  TERRACE_CHECK(
      x.stride(3) == 1 && out.strides() == x.strides() && (!residual.defined() || residual.strides() == x.strides()),
      "tensors of dropout with other strides");
  const int64_t of_sample = x.stride(0), of_plane = x.stride(1), of_position = x.stride(2);
  const at::Tensor samples = draw.samples.contiguous();
  const int64_t* sample_of = samples.const_data_ptr<int64_t>();
  for_type(x.scalar_type(), [&]<typename T>(T) {
    const T* from = x.const_data_ptr<T>();
    const T* base = residual.defined() ? residual.const_data_ptr<T>() : nullptr;
    T* to = out.mutable_data_ptr<T>();
    at::parallel_for(0, x.size(0) * planes * length, std::max<int64_t>(1, 8192 / columns),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t row = begin; row < end; ++row) {
                         const int64_t index = row / (planes * length), of_planes = row / length % planes;
                         const int64_t position = row % length;
                         const int64_t at = index * of_sample + of_planes * of_plane + position * of_position;
                         const auto sample = static_cast<uint64_t>(sample_of[index]);
                         const auto plane = static_cast<uint32_t>(draw.first_plane + of_planes);
                         // A run has fewer than 2^48 samples and a model fewer than 2^16 heads.
                         const PhiloxBlock counter = {0, static_cast<uint32_t>(draw.positions.of(position)),
                                                      static_cast<uint32_t>(sample),
                                                      static_cast<uint32_t>(sample >> 32) | plane << 16};
                         dropout_row(draw, counter, from + at, base ? base + at : nullptr, to + at, columns);
                       }
                     });
  });
}

}  // namespace terrace::ops::cpu
