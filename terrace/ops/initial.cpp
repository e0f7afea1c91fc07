// Computes random initial values in groups of sixteen blocks of the counter.
#include "terrace/ops/initial.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "terrace/base/error.h"
#include "terrace/ops/cpu/philox_lanes.h"
#include "terrace/ops/element_type.h"

namespace terrace::ops {
namespace {

constexpr int64_t group_size = 4 * cpu::num_lanes;  // numbers of sixteen blocks

// The numbers [64 group, 64 group + 64) of the stream.
TERRACE_VECTOR_CLONES void uniform_group(PhiloxKey key, uint64_t group, double (&out)[group_size]) {
  const uint64_t block = group * cpu::num_lanes;
  uint32_t words[4][cpu::num_lanes];
  cpu::philox_lanes<true>(key, {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0}, words);
  for (int64_t lane = 0; lane < cpu::num_lanes; ++lane) {
    for (int64_t word = 0; word < 4; ++word) out[4 * lane + word] = (words[word][lane] + 0.5) * 0x1.0p-32;
  }
}

// Numbers first .. first + n - 1 of the stream, each mapped by `value_of`.
template <typename T, typename ValueOf>
void fill_run(T* out, PhiloxKey key, uint64_t first, int64_t n, const ValueOf& value_of) {
  double uniform[group_size];
  uint64_t number = first;
  const uint64_t last = first + static_cast<uint64_t>(n);
  while (number < last) {
    const uint64_t group = number / group_size, end = std::min(last, (group + 1) * group_size);
    uniform_group(key, group, uniform);
    for (; number < end; ++number) out[number - first] = static_cast<T>(value_of(uniform[number % group_size]));
  }
}

template <typename ValueOf>
void fill(const at::Tensor& out, PhiloxKey key, int64_t first, const ValueOf& value_of) {
  TERRACE_CHECK(out.is_cpu() && out.is_contiguous(), "initial values are computed in contiguous CPU tensors");
  for_type(out.scalar_type(), [&]<typename T>(T) {
    T* data = out.mutable_data_ptr<T>();
    at::parallel_for(0, out.numel(), 65536, [&](int64_t begin, int64_t end) {
      fill_run(data + begin, key, static_cast<uint64_t>(first + begin), end - begin, value_of);
    });
  });
}

}  // namespace

void fill_normal(const at::Tensor& out, PhiloxKey key, double deviation, int64_t first) {
  fill(out, key, first, [deviation](double uniform) { return deviation * normal_quantile(uniform); });
}

void fill_uniform(const at::Tensor& out, PhiloxKey key, double low, double high, int64_t first) {
  fill(out, key, first, [low, width = high - low](double uniform) { return low + width * uniform; });
}

void fill_truncated_normal(const at::Tensor& out, PhiloxKey key, double deviation, double cut, int64_t first) {
  TERRACE_CHECK(cut > 0, "a normal distribution is cut at {} deviations", cut);
  const double below = std::erfc(cut / std::numbers::sqrt2) / 2, inside = 1 - 2 * below;
  fill(out, key, first,
       [=](double uniform) { return deviation * std::clamp(normal_quantile(below + inside * uniform), -cut, cut); });
}

}  // namespace terrace::ops
