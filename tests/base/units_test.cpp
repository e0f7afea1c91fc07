// Numbers with units, at and around the values where the unit changes.
#include "terrace/base/text/units.h"

#include <gtest/gtest.h>

#include <limits>

namespace terrace {
namespace {

TEST(Units, FormatsBytes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(71.3 * 1024 * 1024 * 1024), "71.3 GiB");
  EXPECT_EQ(format_bytes(-2048), "-2.0 KiB");
  EXPECT_EQ(format_bytes(0x1p60), "1024.0 PiB");
}

TEST(Units, FormatsSeconds) {
  EXPECT_EQ(format_seconds(0), "0 us");
  EXPECT_EQ(format_seconds(4.3e-7), "0.43 us");
  EXPECT_EQ(format_seconds(2.5e-6), "2.50 us");
  EXPECT_EQ(format_seconds(2.5e-5), "25.0 us");
  EXPECT_EQ(format_seconds(937.4e-6), "937 us");
  EXPECT_EQ(format_seconds(999.6e-6), "1.00 ms");
  EXPECT_EQ(format_seconds(0.00312), "3.12 ms");
  EXPECT_EQ(format_seconds(0.85), "850 ms");
  EXPECT_EQ(format_seconds(0.9996), "1.00 s");
  EXPECT_EQ(format_seconds(1), "1.00 s");
  EXPECT_EQ(format_seconds(3.456), "3.46 s");
  EXPECT_EQ(format_seconds(9.996), "10.0 s");
  EXPECT_EQ(format_seconds(59.9), "59.9 s");
  EXPECT_EQ(format_seconds(59.97), "1 min 00 s");
  EXPECT_EQ(format_seconds(60), "1 min 00 s");
  EXPECT_EQ(format_seconds(245), "4 min 05 s");
  EXPECT_EQ(format_seconds(3599.6), "1 h 00 min");
  EXPECT_EQ(format_seconds(100 * 3600 + 61), "100 h 01 min");
  EXPECT_EQ(format_seconds(3.6e20), "1e+17 h");
  EXPECT_EQ(format_seconds(std::numeric_limits<double>::infinity()), "inf h");
}

TEST(Units, FormatsDaysAndEnergy) {
  EXPECT_EQ(format_days(86'400), "24 h 00 min");
  EXPECT_EQ(format_days(2 * 86'400), "2.0 days");
  EXPECT_EQ(format_days(12.34 * 86'400), "12.3 days");
  EXPECT_EQ(format_days(12'345.6 * 86'400), "33.8 years");
  EXPECT_EQ(format_days(85'769'384.0 * 86'400), "234,824 years");
  EXPECT_EQ(format_days(1e30), "3.17e+22 years");
  EXPECT_EQ(format_energy(0), "0 Wh");
  EXPECT_EQ(format_energy(1.8e6), "500 Wh");
  EXPECT_EQ(format_energy(3.6e6 * 999.4), "999 kWh");
  EXPECT_EQ(format_energy(3.6e9 * 1.234), "1.23 MWh");
  EXPECT_EQ(format_energy(3.6e15 * 56'789), "5.68e+04 TWh");
}

TEST(Units, FormatsFlopRates) {
  EXPECT_EQ(format_flops(2e6), "2.0 MFLOP/s");
  EXPECT_EQ(format_flops(412e9), "412.0 GFLOP/s");
  EXPECT_EQ(format_flops(191.5e12), "191.5 TFLOP/s");
  EXPECT_EQ(format_flops(1.1e18), "1.1 EFLOP/s");
  EXPECT_EQ(format_flops(5e21), "5000.0 EFLOP/s");
}

TEST(Units, FormatsCounts) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(124'439'808), "124,439,808");
  EXPECT_EQ(format_count(-100), "-100");
  EXPECT_EQ(format_count(-1000), "-1,000");
  EXPECT_EQ(format_count(std::numeric_limits<int64_t>::min()), "-9,223,372,036,854,775,808");
}

}  // namespace
}  // namespace terrace
