// Seconds of matrix products on a device. A planner predicts with this formula, and a calibration fits its figures.
#pragma once

#include <cstdint>

#include "terrace/machine/machine.h"

namespace terrace::machine {

// `count` products [m, k] x [k, n] in one kernel.
struct ProductSize {
  int64_t m = 1, n = 1, k = 1;
  int64_t count = 1;
  double bytes = 0;  // that all of them read and write
};

// The time of the products with the fastest of the device's tiles, or the time in which memory delivers the factors and
// takes the results if that is longer. `achievable` is the rate of large products, FLOP/s.
double product_seconds(const ProductSize& size, double achievable, const Device& device);
// The time at the device's rate in this precision.
double product_seconds(const ProductSize& size, config::Precision precision, const Device& device);

}  // namespace terrace::machine
