// Carries between the digits of an exact sum, and rounds it.
#include "terrace/optim/exact_sum.h"

#include <cmath>
#include <limits>

namespace terrace::optim {

void add(const ExactSum& more, ExactSum& sum) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
}

void carry(ExactSum& sum) {
  for (size_t i = 0; i + 1 < exact_digits; ++i) {
    sum[i + 1] += sum[i] >> 32;
    sum[i] &= 0xFFFFFFFF;
  }
}

bool is_finite(const ExactSum& sum) { return sum[exact_digits] == 0 && sum[exact_digits + 1] == 0; }

double value_of(const ExactSum& sum) {
  if (sum[exact_digits + 1] != 0) return std::numeric_limits<double>::quiet_NaN();
  if (sum[exact_digits] != 0) return std::numeric_limits<double>::infinity();
  // One digit more, so that all are below 2^32.
  std::array<uint64_t, exact_digits + 1> digits = {};
  ExactSum carried = sum;
  carry(carried);
  for (size_t i = 0; i < exact_digits; ++i) digits[i] = static_cast<uint64_t>(carried[i]);
  digits[exact_digits] = digits[exact_digits - 1] >> 32;
  digits[exact_digits - 1] &= 0xFFFFFFFF;
  int top = exact_digits;
  while (top > 0 && digits[static_cast<size_t>(top)] == 0) --top;
  const auto digit = [&](int place) { return place < 0 ? 0 : digits[static_cast<size_t>(place)]; };
  if (digit(top) == 0) return 0;
  // The 64 highest bits; what is below counts only in that it is not 0.
  const int zeros = std::countl_zero(digit(top)) - 32;
  uint64_t highest = digit(top) << 32 | digit(top - 1);
  uint64_t below = digit(top - 2);
  if (zeros > 0) {
    highest = highest << zeros | below >> (32 - zeros);
    below = below << zeros & 0xFFFFFFFF;
  }
  for (int place = top - 3; place >= 0; --place) below |= digit(place);
  if (below != 0) highest |= 1;
  return std::ldexp(static_cast<double>(highest), 32 * (top - 1) + exact_lowest_exponent - zeros);
}

}  // namespace terrace::optim
