// Counter-based random numbers: the n-th number of a stream is a function of (key, n), so every layout, thread and
// device draws the same numbers. Philox4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace terrace {

using PhiloxKey = std::array<uint32_t, 2>;
using PhiloxBlock = std::array<uint32_t, 4>;

// Ten rounds; the CUDA kernels include this header too.
constexpr PhiloxBlock philox(PhiloxKey key, PhiloxBlock counter) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// A key of 64 bits from a seed and the name of a stream (FNV-1a, then the SplitMix64 finalizer), so that streams with
// different names are independent.
constexpr PhiloxKey stream_key(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325;
  for (char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3;
  uint64_t z = hash + 0x9E3779B97F4A7C15 * (seed + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  z ^= z >> 31;
  return {static_cast<uint32_t>(z), static_cast<uint32_t>(z >> 32)};
}

// One block of a stream addressed by two 64-bit numbers.
constexpr PhiloxBlock philox_at(PhiloxKey key, uint64_t low, uint64_t high) {
  return philox(key, {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
                      static_cast<uint32_t>(high >> 32)});
}

// Uniform in [0, 1) with 53 bits.
constexpr double unit_uniform(uint32_t low, uint32_t high) {
  return static_cast<double>(((uint64_t{high} << 32) | low) >> 11) * 0x1.0p-53;
}

// The quantile function of the standard normal distribution at p in (0, 1), relative error about 1e-16: Wichura,
// algorithm AS 241 (PPND16). It uses only +, -, *, / and sqrt in double and our own logarithm, so it gives the same
// bits on every device.
double normal_quantile(double p);

// A bijection of [0, size) chosen by the key, evaluated at one index in constant memory: a balanced Feistel network on
// the next even number of bits, walked until it lands inside (Black and Rogaway, "Ciphers with arbitrary finite
// domains", CT-RSA 2002).
uint64_t permute(PhiloxKey key, uint64_t size, uint64_t index);

}  // namespace terrace
