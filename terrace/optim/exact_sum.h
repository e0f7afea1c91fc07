// Sums of squares without a rounding error: in fixed point, whose additions are of integers, so that neither the order
// of the terms nor their division among threads and ranks changes a bit (Kulisch, "Computer Arithmetic and Validity",
// 2008, chapter 8: a long accumulator). Compilers for GPUs read this file.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace terrace::optim {

// The words of a sum. Word i below the last two counts multiples of 2^(32 i - 352), and may exceed 32 bits, since
// carries come at the end. The last two count the terms that are infinite and those that are NaN.
inline constexpr int exact_digits = 20;
inline constexpr int exact_words = exact_digits + 2;
inline constexpr int exact_lowest_exponent = -352;
using ExactSum = std::array<int64_t, exact_words>;

// Adds a sum of squares of at most 2^10 elements that are no wider than fp32: 0, not finite, or from 2^-298 to below
// 2^267. At most 2^30 terms may be added before the carries.
constexpr void add_exactly(double term, int64_t* words) {
  const auto bits = std::bit_cast<uint64_t>(term);
  const auto exponent = static_cast<int>(bits >> 52 & 0x7FF);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  if (exponent == 0x7FF) {
    words[exact_digits + (fraction == 0 ? 0 : 1)] += 1;
    return;
  }
  if (exponent == 0) return;
  const uint64_t mantissa = fraction | uint64_t{1} << 52;
  const int place = exponent - 1075 - exact_lowest_exponent, word = place / 32, shift = place % 32;
  constexpr uint64_t digit = 0xFFFFFFFF;
  const uint64_t low = (mantissa & digit) << shift, high = (mantissa >> 32) << shift;
  words[word] += static_cast<int64_t>(low & digit);
  words[word + 1] += static_cast<int64_t>((low >> 32) + (high & digit));
  words[word + 2] += static_cast<int64_t>(high >> 32);
}

// Adds a sum. Carries of both come first where they may have many terms.
void add(const ExactSum& more, ExactSum& sum);

// Brings all digits but the highest one below 2^32.
void carry(ExactSum& sum);

bool is_finite(const ExactSum& sum);

// The sum rounded once, to the nearest double; NaN or infinite where a term is.
double value_of(const ExactSum& sum);

}  // namespace terrace::optim
