// Computes the softplus sixteen elements at a time.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include "terrace/ops/cpu/kernels.h"
#include "terrace/ops/cpu/lane_vectors.h"
#include "terrace/ops/element_type.h"

namespace terrace::ops::cpu {
namespace {

constexpr int64_t softplus_grain = 8192;  // elements that are worth a thread

// Replaces each u in (0, 1] by log(1 + u) = 2 artanh(s) with s = u / (2 + u), whose powers fall off quickly.
template <int vectors, int bytes>
TERRACE_INLINE inline void logarithms(Lanes<float, bytes> (&u)[vectors]) {
  for (auto& x : u) {
    const Lanes<float, bytes> s = x / (2.0F + x), q = s * s;
    Lanes<float, bytes> sum = q * (1.0F / 15) + 1.0F / 13;
    for (const float coefficient : {1.0F / 11, 1.0F / 9, 1.0F / 7, 1.0F / 5, 1.0F / 3}) sum = sum * q + coefficient;
    x = 2.0F * (s * q * sum + s);
  }
}

template <int vectors, int bytes>
TERRACE_INLINE inline void logarithms(Lanes<double, bytes> (&u)[vectors]) {
  for (auto& lanes : u) {
    for (auto& piece : lanes.piece) {
      for (int lane = 0; lane < Lanes<double, bytes>::size; ++lane) piece[lane] = __builtin_log1p(piece[lane]);
    }
  }
}

// Drops the logarithm where x is above 20; in fp32 rounding drops it by itself.
template <int bytes>
TERRACE_INLINE inline void drop_above_20(const Lanes<double, bytes>& x, Lanes<double, bytes>& rest) {
  rest = piecewise([](auto value, auto of_rest) TERRACE_INLINE { return value > 20.0 ? 0.0 * of_rest : of_rest; }, x,
                   rest);
}
template <int bytes>
TERRACE_INLINE inline void drop_above_20(const Lanes<float, bytes>&, Lanes<float, bytes>&) {}

// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|), in which nothing overflows.
template <int bytes, typename T>
TERRACE_INLINE inline void softplus_range(const T* x, Wide<T> shift, T* y, int64_t n) {
  using Values = Lanes<Wide<T>, bytes>;
  for_groups<bytes / 16>(n, [&]<int vectors>(int64_t i, Vectors<vectors>, auto count) TERRACE_INLINE {
    Values from[vectors], rest[vectors];
    for (int v = 0; v < vectors; ++v) {
      from[v] = load_lanes<bytes>(x + i + v * num_lanes, count);
      rest[v] = -larger(from[v], -from[v]);
    }
    exponentials(rest);
    logarithms(rest);
    for (int v = 0; v < vectors; ++v) {
      drop_above_20(from[v], rest[v]);
      store_lanes(y + i + v * num_lanes, larger(from[v], Values{}) + rest[v] - shift, count);
    }
  });
}

}  // namespace

void softplus(const at::Tensor& x, double shift, const at::Tensor& y) {
  for_type(x.scalar_type(), [&]<typename T>(T) {
    const T* from = x.const_data_ptr<T>();
    T* to = y.mutable_data_ptr<T>();
    at::parallel_for(0, x.numel(), softplus_grain, [&](int64_t begin, int64_t end) {
      with_widest_registers([&]<int bytes>(RegisterBytes<bytes>) TERRACE_INLINE {
        softplus_range<bytes>(from + begin, static_cast<Wide<T>>(shift), to + begin, end - begin);
      });
    });
  });
}

}  // namespace terrace::ops::cpu
