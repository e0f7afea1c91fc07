// The fit finds the figures of a device whose times follow the formula, and is close for one whose times scatter.
#include "terrace/measure/fit_products.h"

#include <gtest/gtest.h>

#include <cmath>

namespace terrace::measure {
namespace {

using config::Precision;

machine::Device device_of(double fp32, double bf16) {
  machine::Device device;
  device.memory_bandwidth = 50e9;
  device.kernel_seconds = 5e-6;
  device.compute_units = 2;
  device.products[static_cast<size_t>(Precision::fp32)].achievable = fp32;
  device.products[static_cast<size_t>(Precision::bf16)].achievable = bf16;
  return device;
}

std::vector<TimedProduct> times_on(const machine::Device& device, double scatter) {
  std::vector<TimedProduct> timed;
  int number = 0;
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    for (const int64_t m : {64, 100, 512}) {
      for (const int64_t n : {200, 768}) {
        for (const int64_t k : {256, 1024}) {
          const machine::ProductSize size{.m = m, .n = n, .k = k};
          const double factor = 1 + (number++ % 2 == 0 ? scatter : -scatter);
          timed.push_back({precision, size, factor * machine::product_seconds(size, precision, device)});
        }
      }
    }
  }
  return timed;
}

TEST(FitProducts, FindsTheFiguresOfADevice) {
  machine::Device device = device_of(100e9, 200e9);
  device.tiles = {{.rows = 32, .columns = 64, .efficiency = 1}};
  device.tile_start = 16;
  machine::Device fitted = device_of(0, 0);
  fit_products(times_on(device, 0), false, fitted);
  EXPECT_EQ(fitted.tiles, device.tiles);
  EXPECT_EQ(fitted.tile_start, 16);
  EXPECT_NEAR(fitted.rate(Precision::fp32).achievable, 100e9, 1e6);
  EXPECT_NEAR(fitted.rate(Precision::bf16).achievable, 200e9, 1e6);
  EXPECT_EQ(fitted.rate(Precision::fp16).achievable, 0);
  EXPECT_GE(fitted.rate(Precision::fp32).peak, fitted.rate(Precision::fp32).achievable);
}

TEST(FitProducts, FitsScatteredTimesClosely) {
  machine::Device device = device_of(80e9, 300e9);
  device.tiles = {{.rows = 16, .columns = 16, .efficiency = 1}};
  machine::Device fitted = device_of(0, 0);
  const std::vector<TimedProduct> timed = times_on(device, 0.1);
  fit_products(timed, false, fitted);
  for (const TimedProduct& one : timed) {
    EXPECT_NEAR(machine::product_seconds(one.size, one.precision, fitted) / one.seconds, 1, 0.2);
  }
}

}  // namespace
}  // namespace terrace::measure
