// Counts the rounds in which the compute units compute all tiles of the result.
#include "terrace/machine/product_time.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace terrace::machine {
namespace {

// The number of parts of this size that cover n.
int64_t parts_of(int64_t n, int64_t part) { return (n + part - 1) / part; }

}  // namespace

double product_seconds(const ProductSize& size, double achievable, const Device& device) {
  const double unit_rate = achievable / static_cast<double>(device.compute_units);
  double computed = std::numeric_limits<double>::infinity();
  for (const Tile& tile : device.tiles) {
    const auto tiles = static_cast<double>(parts_of(size.m, tile.rows) * parts_of(size.n, tile.columns) * size.count);
    const double rounds = std::ceil(tiles / static_cast<double>(device.compute_units));
    const double flops =
        2.0 * static_cast<double>(tile.rows * tile.columns) * (static_cast<double>(size.k) + device.tile_start);
    computed = std::min(computed, rounds * flops / (unit_rate * tile.efficiency));
  }
  return std::max(computed, size.bytes / device.memory_bandwidth) + device.kernel_seconds;
}

double product_seconds(const ProductSize& size, config::Precision precision, const Device& device) {
  return product_seconds(size, device.rate(precision).achievable, device);
}

}  // namespace terrace::machine
