// Elements in memory, the numbers that kernels compute with, and the conversions between them, on GPUs of either maker.
#pragma once

#include <cstdint>
#include <type_traits>

#include "gpu_language.cuh"
#include "terrace/base/gpu/gpu_array.h"

namespace terrace {

// bf16 as its bits, which are the upper half of an fp32.
struct GpuBFloat16 {
  uint16_t bits;
};

__device__ inline double widen(double x) { return x; }
__device__ inline float widen(float x) { return x; }
__device__ inline float widen(__half x) { return __half2float(x); }
__device__ inline float widen(GpuBFloat16 x) { return __uint_as_float(static_cast<uint32_t>(x.bits) << 16); }

// Rounds to nearest, ties to even; a NaN stays a NaN.
template <typename T, typename A>
__device__ T narrow(A x) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(x);
  } else if constexpr (std::is_same_v<T, GpuBFloat16>) {
    // Both are computed, so that stores of several elements stay one.
    const uint32_t bits = __float_as_uint(x), nan = bits | 0x400000, rounded = bits + 0x7fff + ((bits >> 16) & 1);
    return {static_cast<uint16_t>((x != x ? nan : rounded) >> 16)};
  } else {
    return static_cast<T>(x);
  }
}

// Elements that one load brings: at most 16 bytes, at an address that is a multiple of their size.
template <typename T, int n>
struct alignas(n * sizeof(T)) GpuPack {
  T elements[n];
};

template <typename T>
constexpr int whole_pack = 16 / sizeof(T);

template <int n, typename T>
__device__ GpuPack<T, n> load_pack(const T* from) {
  return *reinterpret_cast<const GpuPack<T, n>*>(from);
}

template <typename T, int n>
__device__ void store_pack(T* to, const GpuPack<T, n>& pack) {
  if constexpr (sizeof(pack) % sizeof(uint32_t) == 0 && sizeof(T) < sizeof(uint32_t)) {
    // Words, since compilers store elements of 16 bits one by one.
    constexpr int words = sizeof(pack) / sizeof(uint32_t);
    GpuPack<uint32_t, words> joined;
    memcpy(&joined, &pack, sizeof(pack));
    *reinterpret_cast<GpuPack<uint32_t, words>*>(to) = joined;
  } else {
    *reinterpret_cast<GpuPack<T, n>*>(to) = pack;
  }
}

// Whether rows of this many elements from these addresses on are packs of n elements. Rows at a null address are.
template <int n, typename... T>
bool are_packs(int64_t columns, const T*... rows) {
  return columns % n == 0 && ((reinterpret_cast<uintptr_t>(rows) % (n * sizeof(T)) == 0) && ...);
}

// Calls a generic lambda with a value of the C++ type.
template <typename Body>
void for_gpu_type(GpuFloat type, const Body& body) {
  switch (type) {
    case GpuFloat::fp64:
      return body(double{});
    case GpuFloat::fp32:
      return body(float{});
    case GpuFloat::bf16:
      return body(GpuBFloat16{});
    case GpuFloat::fp16:
      return body(__half{});
  }
}

template <typename Body>
void for_gpu_types(GpuFloat first, GpuFloat second, const Body& body) {
  for_gpu_type(first, [&](auto a) { for_gpu_type(second, [&](auto b) { body(a, b); }); });
}

}  // namespace terrace
