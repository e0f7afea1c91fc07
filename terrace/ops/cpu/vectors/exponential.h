// Powers of two and of e on one vector or several, for results in the type T.
#pragma once

#include <type_traits>

#include "terrace/ops/cpu/vectors/lockstep.h"
#include "terrace/ops/cpu/vectors/vectors.h"

namespace terrace::ops::cpu::TERRACE_VECTOR_SET {

// 2^f for f in [-1/2, 1/2]: a minimax polynomial with an error of 2e-9 in fp32, or 3e-6 if the result is rounded to
// 16 bits.
template <typename T, typename V>
TERRACE_VECTOR_INLINE V power_of_fraction(const V& f) {
  V sum;
  if constexpr (std::is_same_v<T, float>) {
    sum = times_plus(f, broadcast(1.5353361e-4F), broadcast(1.3398874e-3F));
    sum = times_plus(sum, f, broadcast(9.6184369e-3F));
    sum = times_plus(sum, f, broadcast(5.5503324e-2F));
    sum = times_plus(sum, f, broadcast(2.4022648e-1F));
    sum = times_plus(sum, f, broadcast(6.9314718e-1F));
  } else {
    sum = times_plus(f, broadcast(9.5828529e-3F), broadcast(5.5906426e-2F));
    sum = times_plus(sum, f, broadcast(2.4024099e-1F));
    sum = times_plus(sum, f, broadcast(6.9312408e-1F));
  }
  return times_plus(sum, f, broadcast(1.0F));
}

// 2^x for x of at most 127; the result is at least 2^-126, since subnormal numbers are slow.
template <typename T, typename V>
TERRACE_VECTOR_INLINE V power_of_two(const V& x) {
  const V limited = larger(V(broadcast(-126.0F)), x);  // with this order of arguments a NaN stays a NaN
  const V n = nearest_integer(limited);
  return scaled_by_power(power_of_fraction<T>(limited - n), n);
}

// e^x with x clamped to [-87, 87], to about one ulp, or with an error of 3e-6 if the result is rounded to 16 bits.
template <typename T, typename V>
TERRACE_VECTOR_INLINE V exponential(const V& x) {
  const V limited = smaller(V(broadcast(87.0F)), larger(V(broadcast(-87.0F)), x));
  const OneVector log2_e = broadcast(1.44269502F);
  const V n = nearest_integer(limited * log2_e);
  V f = times_minus(limited, log2_e, n);
  // The rest of log2 e.
  if constexpr (std::is_same_v<T, float>) f = times_plus(limited, broadcast(1.92596299e-8F), f);
  return scaled_by_power(power_of_fraction<T>(f), n);
}

}  // namespace terrace::ops::cpu::TERRACE_VECTOR_SET
