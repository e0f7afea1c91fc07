// Sums in tiles that stay in the L1 cache, compiled for several generations of processors.
#include "terrace/comm/sum.h"

#include <algorithm>
#include <cstring>

#include "terrace/base/error.h"
#include "terrace/base/vector_clones.h"
#include "terrace/comm/float16.h"

namespace terrace::comm {
namespace {

constexpr int64_t tile = 512;  // elements

inline float widen(float x) { return x; }
inline double widen(double x) { return x; }
inline uint64_t widen(uint64_t x) { return x; }
inline uint32_t widen(uint32_t x) { return x; }
inline uint8_t widen(uint8_t x) { return x; }

template <typename T>
T narrow(T x) {
  return x;
}
template <typename T>
T narrow(float x);
template <>
BFloat16 narrow<BFloat16>(float x) {
  return to_bfloat16(x);
}
template <>
Float16 narrow<Float16>(float x) {
  return to_float16(x);
}

template <typename T, typename Wide>
TERRACE_VECTOR_CLONES void add_two(const T* a, const T* b, Wide* __restrict total, int64_t n) {
  for (int64_t i = 0; i < n; ++i) total[i] = static_cast<Wide>(widen(a[i]) + widen(b[i]));
}

template <typename T, typename Wide>
TERRACE_VECTOR_CLONES void add_one(const T* a, Wide* __restrict total, int64_t n) {
  for (int64_t i = 0; i < n; ++i) total[i] = static_cast<Wide>(total[i] + widen(a[i]));
}

template <typename T, typename Wide>
TERRACE_VECTOR_CLONES void round_each(const Wide* __restrict total, T* __restrict rounded, int64_t n) {
  for (int64_t i = 0; i < n; ++i) rounded[i] = narrow<T>(total[i]);
}

template <typename T, typename Wide>
void sum_range(std::span<const void* const> from, std::span<void* const> to, int64_t begin, int64_t count) {
  alignas(64) Wide total[tile];
  alignas(64) T rounded[tile];
  const auto source = [&](size_t i, int64_t at) { return static_cast<const T*>(from[i]) + at; };
  for (int64_t at = begin; at < begin + count; at += tile) {
    const int64_t n = std::min(tile, begin + count - at);
    add_two(source(0, at), source(1, at), total, n);
    for (size_t i = 2; i < from.size(); ++i) add_one(source(i, at), total, n);
    const void* result = total;
    if constexpr (!std::is_same_v<T, Wide>) {
      round_each(total, rounded, n);
      result = rounded;
    }
    for (void* const one : to) std::memcpy(static_cast<T*>(one) + at, result, static_cast<size_t>(n) * sizeof(T));
  }
}

}  // namespace

void sum_members(Type type, std::span<const void* const> from, std::span<void* const> to, int64_t begin,
                 int64_t count) {
  TERRACE_CHECK(from.size() >= 2, "a sum over {} members", from.size());
  switch (type) {
    case Type::fp64:
      return sum_range<double, double>(from, to, begin, count);
    case Type::fp32:
      return sum_range<float, float>(from, to, begin, count);
    case Type::bf16:
      return sum_range<BFloat16, float>(from, to, begin, count);
    case Type::fp16:
      return sum_range<Float16, float>(from, to, begin, count);
    case Type::int64:
      return sum_range<uint64_t, uint64_t>(from, to, begin, count);
    case Type::int32:
      return sum_range<uint32_t, uint32_t>(from, to, begin, count);
    case Type::uint8:
      return sum_range<uint8_t, uint8_t>(from, to, begin, count);
  }
}

}  // namespace terrace::comm
