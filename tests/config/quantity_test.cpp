// Tests numbers with units: every unit, texts that are refused, and that what is written is read back bit for bit.
#include "terrace/config/quantity.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

namespace terrace::config {
namespace {

std::string problem_of(const std::string& toml, const Quantity& quantity, double& value) {
  const toml::table table = toml::parse("value = " + toml);
  return quantity.read(*table.get("value"), value);
}

// NaN if the text is refused.
double read(const std::string& text, Measure measure) {
  double value = std::nan("");
  problem_of('"' + text + '"', {measure, 0, 1e300}, value);
  return value;
}

TEST(Quantity, ReadsEveryUnitExactly) {
  EXPECT_EQ(read("7 B", Measure::bytes), 7);
  EXPECT_EQ(read("1 kB", Measure::bytes), 1e3);
  EXPECT_EQ(read("2 MB", Measure::bytes), 2e6);
  EXPECT_EQ(read("64 GB", Measure::bytes), 64e9);
  EXPECT_EQ(read("1.5 TB", Measure::bytes), 1.5e12);
  EXPECT_EQ(read("1 KiB", Measure::bytes), 1024);
  EXPECT_EQ(read("0.5 MiB", Measure::bytes), 524'288);
  EXPECT_EQ(read("64 GiB", Measure::bytes), 68'719'476'736);
  EXPECT_EQ(read("1 TiB", Measure::bytes), 1'099'511'627'776);
  EXPECT_EQ(read("1.6 TB/s", Measure::bytes_per_second), 1.6e12);
  EXPECT_EQ(read("2 GiB/s", Measure::bytes_per_second), 2'147'483'648);
  EXPECT_EQ(read("191.5 TFLOP/s", Measure::flops_per_second), 191.5e12);
  EXPECT_EQ(read("2.25 PFLOP/s", Measure::flops_per_second), 2.25e15);
  EXPECT_EQ(read("850 GFLOP/s", Measure::flops_per_second), 850e9);
  EXPECT_EQ(read("2.5 us", Measure::seconds), 2.5e-6);
  EXPECT_EQ(read("0.1 us", Measure::seconds), 1e-7);
  EXPECT_EQ(read("300 ns", Measure::seconds), 3e-7);
  EXPECT_EQ(read("1.7 ms", Measure::seconds), 1.7e-3);
  EXPECT_EQ(read("2 s", Measure::seconds), 2);
  EXPECT_EQ(read("36 h", Measure::hours), 36);
  EXPECT_EQ(read("1.5 d", Measure::hours), 36);
  EXPECT_EQ(read("560 W", Measure::watts), 560);
  EXPECT_EQ(read("0.56 kW", Measure::watts), 560);
}

TEST(Quantity, TellsBitsFromBytes) {
  EXPECT_EQ(read("25 GB/s", Measure::bytes_per_second), 25e9);
  EXPECT_EQ(read("200 Gb/s", Measure::bytes_per_second), 25e9);
  EXPECT_EQ(read("100 Mb/s", Measure::bytes_per_second), 12.5e6);
  EXPECT_EQ(read("1.6 Tb/s", Measure::bytes_per_second), 200e9);
  EXPECT_TRUE(std::isnan(read("200 gb/s", Measure::bytes_per_second)));
  EXPECT_TRUE(std::isnan(read("64 Gb", Measure::bytes)));
}

TEST(Quantity, AcceptsExponentsAndNoSpace) {
  EXPECT_EQ(read("1e3 GB", Measure::bytes), 1e12);
  EXPECT_EQ(read("1.5e+3GB", Measure::bytes), 1.5e12);
  EXPECT_EQ(read("25e-1 us", Measure::seconds), 2.5e-6);
  EXPECT_EQ(read("64GiB", Measure::bytes), 68'719'476'736);
  EXPECT_EQ(read("64   GB", Measure::bytes), 64e9);
}

TEST(Quantity, RefusesOtherTexts) {
  for (const char* text : {"", "64", "GB", "64 gb", "64 GB/s", "sixty GB", "64 GB x", "inf GB", "nan GB", "1e400 GB",
                           "1e308 TB", "0x10 GB", "6 4 GB", "64, GB", " 64 GB", "64 GB ", "1e GB", "--1 GB", "-1 GB"}) {
    EXPECT_TRUE(std::isnan(read(text, Measure::bytes))) << text;
  }
}

TEST(Quantity, SaysWhichUnitsAndBoundsThereAre) {
  const Quantity memory{Measure::bytes, 16e6, 20e12};
  double value = 5;
  EXPECT_EQ(problem_of("\"64 gb\"", memory, value),
            "must be a string with a number and a unit, such as \"64 GiB\"; the units are B, kB, MB, GB, TB, KiB, MiB, "
            "GiB or TiB");
  EXPECT_EQ(problem_of("64", memory, value).substr(0, 42), "must be a string with a number and a unit,");
  EXPECT_EQ(problem_of("\"64 TB\"", memory, value), "must be from 16 MB to 20 TB");
  EXPECT_EQ(problem_of("\"-64 GB\"", memory, value), "must be from 16 MB to 20 TB");
  EXPECT_EQ(problem_of("\"5 s\"", {Measure::seconds, 1e-9, 0.1}, value), "must be from 1 ns to 100 ms");
  EXPECT_EQ(problem_of("\"0 W\"", {Measure::watts, 1}, value), "must be at least 1 W");
  EXPECT_NE(problem_of("\"25 gb/s\"", {Measure::bytes_per_second}, value).find("where b are bits"), std::string::npos);
  EXPECT_EQ(value, 5);  // as before
}

TEST(Quantity, DescribesItsValues) {
  EXPECT_EQ((Quantity{Measure::bytes, 16e6, 20e12}.description()),
            "a string with a unit such as \"64 GiB\", from 16 MB to 20 TB");
  EXPECT_EQ((Quantity{Measure::watts, 1}.description()), "a string with a unit such as \"400 W\", at least 1 W");
}

TEST(Quantity, WritesTheShortestText) {
  EXPECT_EQ(quantity_text(64e9, Measure::bytes), "64 GB");
  EXPECT_EQ(quantity_text(68'719'476'736, Measure::bytes), "64 GiB");
  EXPECT_EQ(quantity_text(1'610'612'736, Measure::bytes), "1.5 GiB");
  EXPECT_EQ(quantity_text(0, Measure::bytes), "0 B");
  EXPECT_EQ(quantity_text(1, Measure::bytes), "1 B");
  EXPECT_EQ(quantity_text(25e9, Measure::bytes_per_second), "25 GB/s");
  EXPECT_EQ(quantity_text(191.5e12, Measure::flops_per_second), "191.5 TFLOP/s");
  EXPECT_EQ(quantity_text(2.5e-6, Measure::seconds), "2.5 us");
  EXPECT_EQ(quantity_text(5e-10, Measure::seconds), "0.5 ns");
  EXPECT_EQ(quantity_text(0.1, Measure::seconds), "100 ms");
  EXPECT_EQ(quantity_text(500, Measure::hours), "500 h");
  EXPECT_EQ(quantity_text(1000, Measure::watts), "1 kW");
}

TEST(Quantity, ReadsBackBitForBit) {
  std::mt19937_64 random(5);
  for (const Measure measure : {Measure::bytes, Measure::bytes_per_second, Measure::flops_per_second, Measure::seconds,
                                Measure::hours, Measure::watts}) {
    for (int round = 0; round < 2000; ++round) {
      const double scale = std::pow(10.0, static_cast<double>(random() % 32) - 12);
      const double value = scale * static_cast<double>(random() >> 11) / 9007199254740992.0;
      const double again = read(quantity_text(value, measure), measure);
      ASSERT_EQ(std::bit_cast<uint64_t>(again), std::bit_cast<uint64_t>(value)) << quantity_text(value, measure);
    }
    for (int bits = 0; bits < 60; ++bits) {
      const double value = std::ldexp(1.0, bits);
      ASSERT_EQ(read(quantity_text(value, measure), measure), value);
    }
  }
}

}  // namespace
}  // namespace terrace::config
