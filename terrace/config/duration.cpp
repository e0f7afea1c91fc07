// Reads lengths of time: a number of seconds, or a text such as "1h30m".
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "terrace/config/domain.h"

namespace terrace::config {
namespace {

struct Unit {
  std::string_view word;
  double seconds;
};

// Units from the longest to the shortest; a text must use them in this order. A year has 365.25 days, a month a twelfth
// of them; data of calendar months and years take them as these lengths.
constexpr std::array units = {Unit{"y", 365.25 * 86'400},
                              Unit{"mo", 30.4375 * 86'400},
                              Unit{"d", 86'400},
                              Unit{"h", 3'600},
                              Unit{"m", 60},
                              Unit{"s", 1}};

constexpr double most_seconds = 1e9;  // about 30 years

}  // namespace

std::optional<double> parse_duration(std::string_view text) {
  if (text.empty()) return std::nullopt;
  double seconds = 0;
  size_t next_unit = 0;
  while (!text.empty()) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
    if (error != std::errc() || !std::isfinite(number)) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    while (next_unit < units.size() && !text.starts_with(units[next_unit].word)) ++next_unit;
    if (next_unit == units.size()) return std::nullopt;
    seconds += number * units[next_unit].seconds;
    text.remove_prefix(units[next_unit++].word.size());
  }
  return seconds;
}

std::string Duration::read(const toml::node& node, double& seconds) const {
  std::optional<double> value;
  if (node.is_number()) value = *node.value<double>();
  if (node.is_string()) value = parse_duration(*node.value<std::string>());
  if (!value) return fmt::format("must be {}, of y, mo, d, h, m and s in this order", description());
  if (!(*value >= 0 && *value <= most_seconds)) {
    return fmt::format("must be from 0 (none) to {:.0f} seconds", most_seconds);
  }
  seconds = *value;
  return "";
}

}  // namespace terrace::config
