// Computes the normal quantile in plain IEEE arithmetic, and the keyed permutation.
#include "terrace/base/random.h"

#include <bit>
#include <cmath>

#include "terrace/base/error.h"

namespace terrace {
namespace {

// Natural logarithm of a normal positive double: exponent and mantissa apart, then 2 artanh((m-1)/(m+1)) as a series.
double portable_log(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000);
  if (mantissa > 1.4142135623730951) {
    mantissa *= 0.5;
    ++exponent;
  }
  const double t = (mantissa - 1.0) / (mantissa + 1.0);
  const double t2 = t * t;
  double sum = 0.0;
  for (int k = 21; k >= 1; k -= 2) sum = sum * t2 + 1.0 / k;
  return exponent * 0.6931471805599453 + 2.0 * t * sum;
}

template <size_t N>
double polynomial(const double (&coefficients)[N], double x) {
  double sum = 0.0;
  for (double c : coefficients) sum = sum * x + c;
  return sum;
}

}  // namespace

double normal_quantile(double p) {
  static constexpr double a[] = {2509.0809287301226727, 33430.575583588128105, 67265.770927008700853,
                                 45921.953931549871457, 13731.693765509461125, 1971.5909503065514427,
                                 133.14166789178437745, 3.387132872796366608};
  static constexpr double b[] = {
      5226.495278852545925,  28729.085735721942674, 39307.89580009271061,  21213.794301586595867,
      5394.1960214247511077, 687.1870074920579083,  42.313330701600911252, 1.0};
  static constexpr double c[] = {7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177,
                                 1.27045825245236838258,   3.64784832476320460504,   5.7694972214606914055,
                                 4.6303378461565452959,    1.42343711074968357734};
  static constexpr double d[] = {
      1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.14810397642748007459,
      0.68976733498510000455,    1.6763848301838038494,   2.05319162663775882187,   1.0};
  static constexpr double e[] = {2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386,
                                 0.026532189526576123093,   0.29656057182850489123,    1.7848265399172913358,
                                 5.4637849111641143699,     6.6579046435011037772};
  static constexpr double f[] = {
      2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5, 7.868691311456132591e-4,
      0.0148753612908506148525,   0.13692988092273580531,   0.59983220655588793769,   1.0};
  TERRACE_CHECK(p > 0.0 && p < 1.0, "p = {}", p);
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(a, r) / polynomial(b, r);
  }
  const double r = std::sqrt(-portable_log(q < 0 ? p : 1.0 - p));
  const double z =
      r <= 5.0 ? polynomial(c, r - 1.6) / polynomial(d, r - 1.6) : polynomial(e, r - 5.0) / polynomial(f, r - 5.0);
  return q < 0 ? -z : z;
}

uint64_t permute(PhiloxKey key, uint64_t size, uint64_t index) {
  TERRACE_CHECK(index < size, "index {} of {}", index, size);
  if (size == 1) return 0;
  const int half_bits = (std::bit_width(size - 1) + 1) / 2;
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  do {
    uint64_t left = index >> half_bits;
    uint64_t right = index & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      const uint64_t mixed = left ^ (philox_at(key, right, round)[0] & mask);
      left = right;
      right = mixed;
    }
    index = (left << half_bits) | right;
  } while (index >= size);
  return index;
}

}  // namespace terrace
