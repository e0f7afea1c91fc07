// Tries tiles and starts of tiles on a grid; the rates that fit best with them follow directly.
#include "terrace/measure/fit_products.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

namespace terrace::measure {
namespace {

using config::Precision;
constexpr std::array precisions{Precision::fp32, Precision::bf16, Precision::fp16};

machine::ComputeRate& rate_of(machine::Device& device, Precision precision) {
  return device.products[static_cast<size_t>(precision)];
}

// The rate at which the products of a type take as long as they did, in the geometric mean: those that memory limits
// say nothing of it. A trial rate is enough, since computed times are inversely proportional to it.
double fitted_rate(const std::vector<TimedProduct>& timed, Precision precision, machine::Device device) {
  constexpr double trial = 1e9;
  rate_of(device, precision).achievable = trial;
  device.memory_bandwidth = std::numeric_limits<double>::infinity();
  double sum = 0;
  int64_t count = 0;
  for (const TimedProduct& one : timed) {
    if (one.precision != precision || one.seconds <= device.kernel_seconds) continue;
    const double computed = machine::product_seconds(one.size, precision, device) - device.kernel_seconds;
    sum += std::log(computed / (one.seconds - device.kernel_seconds));
    ++count;
  }
  return count == 0 ? 0 : trial * std::exp(sum / static_cast<double>(count));
}

double squared_error(const std::vector<TimedProduct>& timed, const machine::Device& device) {
  double sum = 0;
  for (const TimedProduct& one : timed) {
    const double ratio = machine::product_seconds(one.size, one.precision, device) / one.seconds;
    sum += std::log(ratio) * std::log(ratio);
  }
  return sum;
}

struct Grid {
  std::vector<int64_t> units, rows, columns;
};

// Processors compute tiles of their registers, by all cores together; GPUs tiles of their shared memory.
Grid grid_of(bool is_gpu, int64_t units) {
  if (!is_gpu) return {{units}, {1, 8, 16, 32, 64}, {1, 16, 32, 64, 128}};
  return {{80, 104, 108, 110, 114, 132, 142, 304}, {64, 128, 256}, {64, 128, 256}};
}

}  // namespace

void fit_products(const std::vector<TimedProduct>& timed, bool is_gpu, machine::Device& device) {
  const Grid grid = grid_of(is_gpu, device.compute_units);
  double least = std::numeric_limits<double>::infinity();
  machine::Device best = device;
  for (const int64_t units : grid.units) {
    for (const int64_t rows : grid.rows) {
      for (const int64_t columns : grid.columns) {
        for (const double start : {0.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0}) {
          machine::Device trial = device;
          trial.compute_units = units;
          trial.tiles = {{.rows = rows, .columns = columns, .efficiency = 1}};
          trial.tile_start = start;
          for (const Precision precision : precisions) {
            rate_of(trial, precision).achievable = fitted_rate(timed, precision, trial);
          }
          const double error = squared_error(timed, trial);
          if (error >= least) continue;
          least = error;
          best = trial;
        }
      }
    }
  }
  for (const TimedProduct& one : timed) {
    const auto& [m, n, k, count, _] = one.size;
    machine::ComputeRate& rate = rate_of(best, one.precision);
    rate.peak = std::max({rate.peak, rate.achievable, 2.0 * static_cast<double>(m * n * k * count) / one.seconds});
  }
  device = best;
}

}  // namespace terrace::measure
