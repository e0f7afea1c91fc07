// A number with a unit, as a string of the file: "64 GiB", "1.6 TB/s", "2.5 us".
#pragma once

#include <toml++/toml.h>

#include <limits>
#include <string>

namespace terrace::config {

// The measure of a quantity, which also decides the unit in which its value is stored.
enum class Measure { bytes, bytes_per_second, flops_per_second, seconds, hours, watts };

// The quantity with its unit, such as "64 GiB", in the largest unit that gives a short number. Reading the text gives
// the same value bit for bit.
std::string quantity_text(double value, Measure measure);

// Decimal and binary units are distinct (GB, GiB), and so are bits and bytes (Gb/s, GB/s).
struct Quantity {
  Measure measure = Measure::bytes;
  double least = 0, most = std::numeric_limits<double>::infinity();

  std::string description() const;
  std::string read(const toml::node& node, double& value) const;
  // The value as TOML.
  std::string text(double value) const { return '"' + quantity_text(value, measure) + '"'; }
};

}  // namespace terrace::config
