// Formatting of bytes, times, rates and counts.
#include "terrace/base/text/units.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace terrace {

std::string format_bytes(double bytes) {
  static constexpr std::array units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  while (std::abs(bytes) >= 1024 && unit + 1 < units.size()) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, units[unit]);
}

std::string format_seconds(double seconds) {
  // Three digits, as those of "12.3 s".
  const auto digits = [](double value, const char* unit) {
    const int behind = value == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    return fmt::format("{:.{}f} {}", value, behind, unit);
  };
  if (seconds < 0.9995e-3) return digits(seconds * 1e6, "us");
  if (seconds < 0.9995) return digits(seconds * 1e3, "ms");
  if (seconds < 59.95) return digits(seconds, "s");
  constexpr double longest = 1e15;  // whose hours and minutes are told apart
  if (!(seconds < longest)) return fmt::format("{:.3g} h", seconds / 3600);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string format_days(double seconds) {
  const double days = seconds / 86400, years = days / 365.25;
  if (days < 2) return format_seconds(seconds);
  if (days < 1000) return fmt::format("{:.1f} days", days);
  if (years < 1000) return fmt::format("{:.3g} years", years);
  return years < 1e15 ? format_count(std::llround(years)) + " years" : fmt::format("{:.3g} years", years);
}

std::string format_energy(double joules) {
  static constexpr std::array units = {"Wh", "kWh", "MWh", "GWh", "TWh"};
  double value = joules / 3600;
  size_t unit = 0;
  while (value >= 1000 && unit + 1 < units.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.3g} {}", value, units[unit]);
}

std::string format_flops(double flops_per_second) {
  static constexpr std::array units = {"MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s", "EFLOP/s"};
  double value = flops_per_second / 1e6;
  size_t unit = 0;
  while (value >= 1000 && unit + 1 < units.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string format_count(int64_t count) {
  std::string digits = std::to_string(count);
  const size_t first = count < 0 ? 1 : 0;
  for (size_t place = digits.size(); place > first + 3;) digits.insert(place -= 3, ",");
  return digits;
}

}  // namespace terrace
