// Fits the figures of a machine's description that decide the times of matrix products.
#pragma once

#include <vector>

#include "terrace/machine/machine.h"
#include "terrace/machine/product_time.h"

namespace terrace::measure {

struct TimedProduct {
  config::Precision precision = config::Precision::fp32;
  machine::ProductSize size;
  double seconds = 0;
};

// Sets the achievable rate of each type that was timed, the tile, the start of a tile and, for GPUs, the number of
// compute units so that machine::product_seconds() is closest to the times: the mean of the squared logarithms of the
// ratios is smallest. `device` has its memory bandwidth and the time of a kernel already. The peak becomes the highest
// rate that was seen if it is below that.
void fit_products(const std::vector<TimedProduct>& timed, bool is_gpu, machine::Device& device);

}  // namespace terrace::measure
